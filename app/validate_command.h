#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::app {

struct ValidateFlags {
  std::vector<std::string> files;
  std::optional<std::string> machines;
  std::optional<std::string> frameworks;
  std::optional<std::string> source;
  bool rows = false;
  bool json = false;
};

/// Declares `orrery validate`; parsing fills the flags.
CLI::App* declare_validate(CLI::App& app, ValidateFlags& flags);
void run_validate(const ValidateFlags& flags);

}  // namespace orrery::app

#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace orrery::app {

struct CalibrateFlags {
  std::string output;
  std::vector<int> ranks = {1, 2, 4, 8};
  bool json = false;
};

/// Declares `orrery calibrate`; parsing fills the flags.
CLI::App* declare_calibrate(CLI::App& app, CalibrateFlags& flags);
void run_calibrate(const CalibrateFlags& flags);

}  // namespace orrery::app

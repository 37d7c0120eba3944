#pragma once
// A small, sound set of files: a transformer and a click-through model, clusters of two CPU
// ranks and of four GPUs, jobs, plans and data. Tests spoil one of them and look at what is said.

#include <filesystem>
#include <string>
#include <vector>

namespace orrery::app {

struct ExampleFile {
  std::string name;
  std::string content;
};

/// All of them; `orrery run plan.toml` and `orrery run ctr-plan.toml` work where they lie.
const std::vector<ExampleFile>& example_files();

void write_example_files(const std::filesystem::path& folder);

}  // namespace orrery::app

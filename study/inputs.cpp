#include "study/inputs.h"

#include <fmt/format.h>

#include "core/check/plan_check.h"
#include "core/config/read.h"
#include "core/error.h"

namespace orrery::study {

Inputs read_inputs(const std::filesystem::path& plan_file) {
  Inputs inputs;
  inputs.plan = core::read_plan(plan_file);
  const auto beside = [&](const std::string& path) {
    return core::resolve_beside(plan_file, path);
  };
  inputs.model = core::read_model(beside(inputs.plan.model));
  inputs.cluster = core::read_cluster(beside(inputs.plan.cluster));
  inputs.job = core::read_job(beside(inputs.plan.job));
  if (const auto reason =
          core::why_invalid(inputs.plan, inputs.model, inputs.job, inputs.cluster.devices())) {
    throw core::ConfigError(
        fmt::format("{}: {} (cluster {})", plan_file.string(), *reason, inputs.cluster.name));
  }
  return inputs;
}

std::vector<std::filesystem::path> input_files(const std::filesystem::path& plan_file,
                                               const core::Plan& plan) {
  std::vector<std::filesystem::path> files = {plan_file};
  for (const std::string& path : {plan.model, plan.cluster, plan.job}) {
    files.push_back(core::resolve_beside(plan_file, path));
  }
  return files;
}

}  // namespace orrery::study

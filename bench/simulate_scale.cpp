// Host time of folded simulations of large plans: the simulator's share of a search or a what-if.

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "core/config/read.h"
#include "core/lowering.h"
#include "costmodel/predict_durations.h"
#include "sim/simulate.h"

namespace {

using namespace orrery;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path configs = std::filesystem::path(ORRERY_SOURCE_DIR) / "configs";
  const core::Plan plan = core::read_plan(configs / "plans" / argv[1]);
  const auto beside = [&](const std::string& p) {
    return core::resolve_beside(configs / "plans" / argv[1], p);
  };
  const core::Model model = core::read_model(beside(plan.model));
  const core::Cluster cluster = core::read_cluster(beside(plan.cluster));
  const core::Job job = core::read_job(beside(plan.job));
  auto t = Clock::now();
  const core::Program program = core::lower(plan, model, cluster, job);
  fmt::print("lower {:.3f} s\n", since(t));
  t = Clock::now();
  const core::Durations durations = costmodel::predict_durations(program, cluster, job);
  fmt::print("durations {:.3f} s\n", since(t));
  for (const bool folded : {true, false}) {
    if (!folded && argc < 3) continue;
    sim::SimulateOptions options;
    options.folded = folded;
    t = Clock::now();
    const core::Seconds step = sim::simulate_step(program, durations, cluster, options);
    fmt::print("folded {} step {:.9f} s, host {:.3f} s\n", folded, step.value, since(t));
    t = Clock::now();
    const core::Trace trace = sim::simulate(program, durations, cluster, options);
    fmt::print("trace {} spans, host {:.3f} s\n", trace.spans.size(), since(t));
  }
  return 0;
}

#include "study/step_report.h"

#include <algorithm>
#include <vector>

#include "core/check/memory_profile.h"
#include "core/error.h"
#include "costmodel/estimate.h"

namespace orrery::study {
namespace {

// Of a measured trace the fastest after the first, of a simulated one the last: both are past the
// start of the run.
int reported_step(const core::Trace& trace) {
  std::vector<int> steps = core::recorded_steps(trace);
  ORRERY_CHECK(!steps.empty(), "the trace has a step");
  if (trace.simulated) return steps.back();
  if (steps.size() > 1 && steps.front() == 0) steps.erase(steps.begin());
  return *std::min_element(steps.begin(), steps.end(), [&](int a, int b) {
    return core::step_interval(trace, a).length() < core::step_interval(trace, b).length();
  });
}

std::optional<double> utilization(const Inputs& inputs, double tokens_per_second) {
  if (!inputs.model.transformer) return std::nullopt;
  core::FlopsPerSecond peak;
  for (const core::NodeGroup& group : inputs.cluster.groups) {
    const auto found = group.type.device.peak.find(inputs.job.precision);
    if (found == group.type.device.peak.end()) return std::nullopt;
    peak += found->second * (1.0 * group.count * group.type.devices);
  }
  return tokens_per_second *
         costmodel::model_flops_per_token(*inputs.model.transformer, inputs.job.sequence) /
         peak.value;
}

std::optional<double> price(const core::Cluster& cluster, core::Seconds step) {
  constexpr double kSecondsPerHour = 3600.0;
  double dollars_per_hour = 0.0;
  for (const core::NodeGroup& group : cluster.groups) {
    if (!group.type.device.price_per_hour) return std::nullopt;
    dollars_per_hour += *group.type.device.price_per_hour * group.count * group.type.devices;
  }
  return dollars_per_hour * step.value / kSecondsPerHour;
}

void add_memory(StepReport& report, const core::Cluster& cluster, const core::Program& program) {
  std::vector<core::Bytes> peaks;
  for (const core::Role& role : program.roles) peaks.push_back(core::memory_profile(role).peak);
  std::optional<core::Bytes> least_spare;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const core::Device& device = cluster.node_type(cluster.node_of(static_cast<int>(rank))).device;
    const core::Bytes needed = peaks[program.ranks[rank].role.index()] + device.reserved;
    const core::Bytes spare = device.memory - needed;
    if (least_spare && spare >= *least_spare) continue;
    least_spare = spare;
    report.memory = needed;
    report.available = device.memory;
  }
}

}  // namespace

StepReport report_step(const Inputs& inputs, const core::Program& program,
                       const core::Trace& trace) {
  StepReport report;
  report.step = reported_step(trace);
  report.length = core::step_interval(trace, report.step).length();
  const double samples = inputs.job.global_batch;
  const double per_sample = inputs.model.transformer ? inputs.job.sequence : 1.0;
  report.per_second = samples * per_sample / report.length.value;
  report.mfu = utilization(inputs, report.per_second);
  add_memory(report, inputs.cluster, program);
  report.ranks = core::step_breakdowns(trace, report.step);
  report.mean = core::mean_breakdown(trace, report.ranks);
  report.dollars = price(inputs.cluster, report.length);
  return report;
}

}  // namespace orrery::study

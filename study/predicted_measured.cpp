#include "study/predicted_measured.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace orrery::study {
namespace {

/// Executions and time of an operation in each step.
struct StepSums {
  std::map<int, double> executions;
  std::map<int, double> seconds;
};

// A span's name is "<operation> <label>".
std::string operation_of(const core::Trace& trace, const core::Span& span) {
  const std::string& name = trace.names[static_cast<std::size_t>(span.name)];
  return name.substr(0, name.find(' '));
}

std::map<std::string, StepSums> sums_of(const core::Trace& trace) {
  std::map<std::string, StepSums> sums;
  for (const core::Span& span : trace.spans) {
    const int step = span.instruction.step;
    if (trace.steps.size() > 1 && step == 0) continue;
    const core::Lane& lane = trace.lanes[static_cast<std::size_t>(span.lane)];
    const double ranks = 1.0 + static_cast<double>(lane.also.size());
    StepSums& of = sums[operation_of(trace, span)];
    of.executions[step] += ranks;
    of.seconds[step] += ranks * (span.end - span.transfer).value;
  }
  return sums;
}

double median(const std::map<int, double>& by_step) {
  std::vector<double> values;
  for (const auto& [step, value] : by_step) values.push_back(value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

core::Seconds fastest_step(const core::Trace& trace) {
  ORRERY_CHECK(!trace.steps.empty(), "the trace has steps");
  const std::size_t first = trace.steps.size() > 1 ? 1 : 0;
  core::Seconds fastest = trace.steps[first].end - trace.steps[first].start;
  for (std::size_t s = first; s < trace.steps.size(); ++s) {
    fastest = std::min(fastest, trace.steps[s].end - trace.steps[s].start);
  }
  return fastest;
}

Comparison compare(const core::Trace& predicted, const core::Trace& measured) {
  Comparison comparison{fastest_step(predicted), fastest_step(measured), {}};
  const auto predicted_sums = sums_of(predicted);
  for (const auto& [operation, sums] : sums_of(measured)) {
    OperationComparison row{
        operation, median(sums.executions), {}, core::Seconds(median(sums.seconds))};
    const auto found = predicted_sums.find(operation);
    if (found != predicted_sums.end()) {
      row.predicted = core::Seconds(median(found->second.seconds));
    }
    comparison.operations.push_back(std::move(row));
  }
  std::stable_sort(comparison.operations.begin(), comparison.operations.end(),
                   [](const auto& a, const auto& b) { return a.measured > b.measured; });
  return comparison;
}

}  // namespace orrery::study

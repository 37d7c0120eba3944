#include "core/trace/trace_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/trace/rank_timeline.h"

namespace orrery::core {

namespace {

using Key = std::pair<SpanKind, std::string>;

struct Mean {
  double count = 0.0;
  Seconds time;
};

/// The operation is a name's first word (see Span::name).
std::string operation_of(const std::string& name) { return name.substr(0, name.find(' ')); }

std::map<Key, Mean> means(const Trace& trace) {
  std::vector<std::string> operations;
  for (const std::string& name : trace.names) operations.push_back(operation_of(name));
  double ranks = 0.0;
  for (Rank rank : recorded_ranks(trace)) ranks += ranks_represented(trace, rank);
  const double samples = ranks * static_cast<double>(recorded_steps(trace).size());
  std::map<Key, Mean> sums;
  for (const Span& span : trace.spans) {
    const Lane& lane = trace.lanes[static_cast<std::size_t>(span.lane)];
    const double weight = static_cast<double>(1 + lane.also.size()) / samples;
    Mean& mean = sums[{span.kind, operations[static_cast<std::size_t>(span.name)]}];
    mean.count += weight;
    mean.time += weight * active_interval(span).length();
  }
  return sums;
}

}  // namespace

std::vector<OperationComparison> compare_operations(const Trace& predicted, const Trace& measured) {
  std::map<Key, OperationComparison> rows;
  const auto row = [&](const Key& key) -> OperationComparison& {
    OperationComparison& r = rows[key];
    r.kind = key.first;
    r.operation = key.second;
    return r;
  };
  for (const auto& [key, mean] : means(predicted)) {
    row(key).predicted_count = mean.count;
    row(key).predicted = mean.time;
  }
  for (const auto& [key, mean] : means(measured)) {
    row(key).measured_count = mean.count;
    row(key).measured = mean.time;
  }
  std::vector<OperationComparison> sorted;
  for (const auto& [key, r] : rows) sorted.push_back(r);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OperationComparison& a, const OperationComparison& b) {
                     return std::abs(a.error().value) > std::abs(b.error().value);
                   });
  return sorted;
}

Seconds mean_step(const Trace& trace) {
  const int steps = step_count(trace);
  if (steps == 0) return Seconds(0);
  Seconds sum;
  for (int s = 0; s < steps; ++s) sum += step_interval(trace, s).length();
  return sum / steps;
}

}  // namespace orrery::core

#pragma once
// Prediction against measurement, by kind of instruction.

#include <string>
#include <vector>

#include "core/trace.h"

namespace orrery::core {

/// One operation of one kind, "linear" of Forward: means per step and rank. Time is when it was
/// active: a communication's wait for its parties does not count.
struct OperationComparison {
  SpanKind kind = SpanKind::Forward;
  std::string operation;
  double predicted_count = 0.0;
  double measured_count = 0.0;
  Seconds predicted;
  Seconds measured;

  Seconds error() const { return predicted - measured; }
};

/// Largest |error| first. Ranks weigh as many ranks as they stand for.
std::vector<OperationComparison> compare_operations(const Trace& predicted, const Trace& measured);

/// Mean length of the steps of a trace.
Seconds mean_step(const Trace&);

}  // namespace orrery::core

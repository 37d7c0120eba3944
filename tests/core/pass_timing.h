#pragma once
// Orders of passes played with equal stages, messages that cost a time but never hold each other up,
// and nothing bounded: what a schedule is worth by itself.

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {

struct PassTiming {
  double longest_stage = 0;  ///< From its first pass to its last.
  double all = 0;            ///< From the first pass of any stage.
};

/// Empty where the passes wait in a circle. A Backward pass takes as long as both halves.
inline std::optional<PassTiming> timing_of(const std::vector<std::vector<StagePass>>& passes,
                                           int chunks, const PassTimes& times) {
  const int p = static_cast<int>(passes.size());
  std::map<std::tuple<bool, int, int>, double> done;  // Forward, chunk of the model, microbatch.
  std::vector<std::size_t> next(passes.size(), 0);
  std::vector<double> first(passes.size(), 0), free(passes.size(), 0);
  const auto duration = [&](PassKind kind) {
    switch (kind) {
      case PassKind::Forward:
        return times.forward.value;
      case PassKind::InputGrad:
        return times.input_grad.value;
      case PassKind::WeightGrad:
        return times.weight_grad.value;
      case PassKind::Backward:
        return times.input_grad.value + times.weight_grad.value;
    }
    return 0.0;
  };
  const auto run_next = [&](int s) {
    const auto i = static_cast<std::size_t>(s);
    if (next[i] == passes[i].size()) return false;
    const StagePass& pass = passes[i][next[i]];
    const bool forward = pass.kind == PassKind::Forward;
    const int chunk = pass.chunk * p + s;
    const int from = forward ? chunk - 1 : chunk + 1;
    double start = free[i];
    if (pass.kind != PassKind::WeightGrad && from >= 0 && from < p * chunks) {
      const auto input = done.find({forward, from, pass.microbatch});
      if (input == done.end()) return false;
      start = std::max(start, input->second + times.message.value);
    }
    if (next[i]++ == 0) first[i] = start;
    free[i] = start + duration(pass.kind);
    if (pass.kind != PassKind::WeightGrad) done[{forward, chunk, pass.microbatch}] = free[i];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < p; ++s) {
      while (run_next(s)) moved = true;
    }
  }
  PassTiming timing;
  for (std::size_t s = 0; s < passes.size(); ++s) {
    if (next[s] < passes[s].size()) return std::nullopt;
    timing.longest_stage = std::max(timing.longest_stage, free[s] - first[s]);
    timing.all = std::max(timing.all, free[s]);
  }
  return timing;
}

}  // namespace orrery::core

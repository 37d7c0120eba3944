#include "costmodel/pass_times.h"

#include <algorithm>

namespace orrery::costmodel {
namespace {

core::Seconds mean(const std::vector<core::Seconds>& times) {
  core::Seconds sum;
  for (const core::Seconds time : times) sum += time;
  return sum * (1.0 / static_cast<double>(times.size()));
}

}  // namespace

core::PassTimes pass_times(const PipelineStages& stages, const std::vector<PassMemory>& memory) {
  core::PassTimes times;
  times.forward = mean(stages.forward);
  times.input_grad = mean(stages.backward);
  times.weight_grad = mean(stages.weight_grad);
  for (const core::Seconds message : stages.message) {
    times.message = std::max(times.message, message);
  }
  times.kept = 0;
  for (const PassMemory& stage : memory) {
    times.kept = std::max(times.kept, total(stage.kept) / total(stage.saved));
  }
  times.kept = std::min(times.kept, 1.0);
  return times;
}

}  // namespace orrery::costmodel

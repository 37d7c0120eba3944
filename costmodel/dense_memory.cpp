// What a dense plan's devices hold: costmodel/dense_estimator.h.

#include <fmt/format.h>

#include <algorithm>

#include "core/lowering/pipeline_schedule.h"
#include "core/quantity_text.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {

using core::Bytes;

const std::vector<PassMoment>& DenseEstimator::moments(const core::PipelineShape& shape, int stage,
                                                       const ChunkKinds& kinds) const {
  return moments_.of({as_full(shape), stage, kinds},
                     [&] { return fullest_moments(shape, stage, kinds); });
}

StageMemory DenseEstimator::stage_memory(const PassesQuestion& question, StagePlace ends) const {
  const auto lowered = [&](const core::DensePlan* alone) -> const StageMemory& {
    const StagePasses& passes = stage_passes(alone, ends);
    return memories_.of({&passes, question.microbatch},
                        [&] { return passes.memory(question.microbatch); });
  };
  if (question.further == 0) return lowered(question.alone);
  return further(lowered(question.fewer), lowered(question.alone), question.further);
}

PlanMemory DenseEstimator::memory(const core::DensePlan& plan) const {
  PlanMemory result;
  result.shape = core::pipeline_shape(plan, core::microbatches(plan, job_.global_batch));
  result.kinds = &kinds(plan);
  const PassesQuestion question = passes_question(plan);
  for (const AlikeChunks& chunk : result.kinds->chunks) {
    result.of_chunk.push_back(stage_memory(question, chunk.ends).at(chunk.layers));
  }
  return result;
}

std::vector<StagePeak> DenseEstimator::peaks(const PlanMemory& memory) const {
  // A schedule that keeps for the weight gradients what it no longer saves may be fullest anywhere;
  // the others fill a stage the more the earlier it stands.
  const bool anywhere = core::splits_backward(memory.shape.schedule);
  // Computed orders are hardly ever met twice, and come for all stages at once.
  std::vector<std::vector<PassMoment>> computed;
  if (core::computed_from_durations(memory.shape.schedule)) {
    computed = fullest_moments(memory.shape);
  }
  const StageKinds& of = *memory.kinds;
  std::vector<StagePeak> result(of.stages.size());
  std::vector<const PassMemory*> chunks;  // By kind within the stage.
  ChunkKinds kinds;
  for (int s = 0; s < memory.shape.stages; ++s) {
    const std::size_t k = of.kind_of_stage[static_cast<std::size_t>(s)];
    if (!anywhere && of.stages[k].first != s) continue;
    chunks.clear();
    kinds.clear();
    for (const std::size_t c : of.stages[k].chunks) {
      const PassMemory* of_chunk = &memory.of_chunk[c];
      kinds.push_back(kind_index(
          chunks, [=](const PassMemory* kind) { return kind == of_chunk; },
          [=] { return of_chunk; }));
    }
    const MemoryByTerm peak =
        peak_of_passes(chunks, computed.empty() ? moments(memory.shape, s, kinds)
                                                : computed[static_cast<std::size_t>(s)]);
    if (total(peak) > total(result[k].memory)) result[k] = {s, peak};
  }
  return result;
}

std::vector<Bytes> DenseEstimator::least_peaks(const PlanMemory& memory) {
  std::vector<Bytes> result;
  for (const AlikeStages& stage : memory.kinds->stages) {
    Bytes& least = result.emplace_back();
    for (const std::size_t c : stage.chunks) {
      const PassMemory& chunk = memory.of_chunk[c];
      least = std::max({least, total(chunk.forward.peak), total(chunk.backward.peak)});
    }
  }
  return result;
}

DenseEstimator::Fullest DenseEstimator::fullest(const std::vector<StagePeak>& peaks,
                                                const PlanSteps& steps) const {
  Fullest most;
  Bytes largest;
  for (std::size_t k = 0; k < peaks.size(); ++k) {
    MemoryByTerm memory = steps.of_kind[k].persistent + peaks[k].memory;
    memory[static_cast<std::size_t>(MemoryTerm::Reserved)] += device_.reserved;
    const Bytes sum = total(memory);
    if (sum <= largest) continue;
    largest = sum;
    most = {peaks[k].stage, memory};
  }
  return most;
}

DenseEstimator::Fullest DenseEstimator::fullest(const core::DensePlan& plan) const {
  return fullest(peaks(memory(plan)), steps(plan));
}

Infeasible DenseEstimator::too_large(const Fullest& most, Bytes available) const {
  const std::string most_of_it = core::text(available);
  const std::string limit = available < device_.memory
                                ? fmt::format("a plan may use {} of {}", most_of_it, device_.name)
                                : fmt::format("{} has {}", device_.name, most_of_it);
  return {.reason = Infeasible::Reason::Memory,
          .why = fmt::format("stage {} needs {} on each device, {}", most.stage,
                             core::text(total(most.memory)), limit),
          .needed = total(most.memory),
          .available = available};
}

std::optional<Infeasible> DenseEstimator::does_not_fit(const core::DensePlan& plan) const {
  const Fullest most = fullest(plan);
  if (total(most.memory) <= device_.memory) return std::nullopt;
  return too_large(most, device_.memory);
}

}  // namespace orrery::costmodel

#include "costmodel/end_of_step.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/error.h"
#include "core/interference.h"
#include "costmodel/group_cost.h"

namespace orrery::costmodel {
namespace {

using core::GroupKind;
using core::Seconds;

/// How far a stage has come in its last block.
class Progress {
 public:
  Progress(const EndingStage& stage, double slowdown)
      : stage_(stage), slowdown_(slowdown), finish_(stage.finish()) {
    free_[static_cast<std::size_t>(core::Stream::Compute)] = finish_;
    if (stage.reduces_in_passes) free_[static_cast<std::size_t>(core::Stream::Data)] = finish_;
    ends_.reserve(instructions().size());
  }

  /// Goes on to the next collective across stages, or to the end.
  void advance() {
    while (ends_.size() < instructions().size() && !meeting()) run(ready());
  }
  /// The group across stages in which it waits.
  std::optional<GroupKind> meeting() const {
    if (ends_.size() == instructions().size()) return std::nullopt;
    const auto group = next().group;
    return group && crosses_stages(*group) ? group : std::nullopt;
  }
  /// When the next instruction could start.
  Seconds ready() const {
    const EndInstruction& instruction = next();
    const EndBlock& block = *stage_.step->end;
    Seconds start = free_[static_cast<std::size_t>(instruction.stream)];
    for (std::size_t w = waits_; w < instruction.waits_end; ++w) {
      start = std::max(start, ends_[block.waits[w]]);
    }
    for (std::size_t g = gradients_; g < instruction.gradients_end; ++g) {
      start = std::max(start, stage_.complete(block.gradients[g], slowdown_));
    }
    return instruction.after_passes ? std::max(start, finish_) : start;
  }
  void run(Seconds start) {
    const EndInstruction& instruction = next();
    Seconds duration = stage_.step->durations[instruction.line];
    if (!instruction.group) duration *= slowdown_;
    Seconds& free = free_[static_cast<std::size_t>(instruction.stream)];
    if (instruction.stream == core::Stream::Compute) {
      computing_ += duration;
      const Seconds beside =
          std::clamp((moving_until_ - start) / stage_.beside, Seconds(0), duration);
      const Seconds longer = beside * (stage_.beside - 1.0);
      interference_ += longer;
      duration += longer;
    }
    free = start + duration;
    if (core::takes_from_computing(instruction.stream)) {
      moving_until_ = std::max(moving_until_, free);
      if (start < finish_) {
        if (!first_) first_ = start;
        beside_passes_ += std::min(free, finish_) - start;
        begun_beside_passes_ += duration;
      }
    }
    ends_.push_back(free);
    waits_ = instruction.waits_end;
    gradients_ = instruction.gradients_end;
  }

  const StagePlace& ends() const { return stage_.ends; }
  Seconds end() const { return *std::max_element(free_.begin(), free_.end()); }
  Seconds computing() const { return computing_; }
  Seconds interference() const { return stage_.delay + interference_; }

  /// Of collectives that begin before the last pass ends: the first one's start; how long they run up
  /// to then, and altogether.
  std::optional<Seconds> first() const { return first_; }
  Seconds beside_passes() const { return beside_passes_; }
  Seconds begun_beside_passes() const { return begun_beside_passes_; }

 private:
  const std::vector<EndInstruction>& instructions() const { return stage_.step->end->instructions; }
  const EndInstruction& next() const { return instructions()[ends_.size()]; }

  const EndingStage& stage_;
  double slowdown_;
  Seconds finish_;
  std::array<Seconds, core::kStreams> free_{};
  std::vector<Seconds> ends_;              ///< Of the instructions done.
  std::size_t waits_ = 0, gradients_ = 0;  ///< Where the next one's begin.
  Seconds computing_, interference_;
  Seconds moving_until_;  ///< Collectives so far.
  std::optional<Seconds> first_;
  Seconds beside_passes_, begun_beside_passes_;
};

bool is_member(const StagePlace& ends, GroupKind kind) {
  return kind != GroupKind::TiedEmbedding || ends.first || ends.last;
}

/// Lets the members of a group across stages meet, if all of them have come to it.
bool meet(std::vector<Progress>& stages, GroupKind kind) {
  Seconds start;
  for (const Progress& stage : stages) {
    if (!is_member(stage.ends(), kind)) continue;
    if (stage.meeting() != kind) return false;
    start = std::max(start, stage.ready());
  }
  for (Progress& stage : stages) {
    if (!is_member(stage.ends(), kind)) continue;
    stage.run(start);
    stage.advance();
  }
  return true;
}

}  // namespace

Seconds EndingStage::finish() const {
  Seconds latest;
  for (const EndingChunk& chunk : chunks) latest = std::max(latest, chunk.finish);
  return latest + delay;
}

Seconds EndingStage::complete(StagePart part, double slowdown) const {
  const EndingChunk* chunk = &chunks.front();
  if (part.kind == StagePart::Kind::Head) chunk = &chunks.back();
  if (part.kind == StagePart::Kind::Layer) {
    for (; part.layer >= chunk->layers; ++chunk) part.layer -= chunk->layers;
  }
  const Seconds complete =
      chunk->finish - chunk->gradients->before_end(part, chunk->layers) * slowdown;
  if (!(span > Seconds(0))) return complete + delay;
  const Seconds latest = finish() - delay;
  return latest + delay - (latest - complete) * (1.0 + own / span);
}

void set_interference(EndingStage& stage, double slowdown) {
  if (stage.beside == 1.0) return;
  Progress alone(stage, slowdown);
  alone.advance();
  if (!alone.first()) return;
  Seconds last_passes;
  for (const EndingChunk& chunk : stage.chunks) last_passes += chunk.last_pass;
  const double more = stage.beside - 1.0;
  stage.own = std::min({more * alone.beside_passes(),
                        more / stage.beside * alone.begun_beside_passes(), more * last_passes});
  stage.span = stage.finish() - *alone.first();
}

EndOfStep end_of_step(const std::vector<EndingStage>& ending, double slowdown) {
  std::vector<Progress> stages;
  stages.reserve(ending.size());
  for (const EndingStage& stage : ending) stages.emplace_back(stage, slowdown).advance();
  for (bool met = true; met;) {
    met = false;
    for (const Progress& stage : stages) {
      if (const auto kind = stage.meeting()) met = met || meet(stages, *kind);
    }
  }
  EndOfStep last;
  for (const Progress& stage : stages) {
    ORRERY_CHECK(!stage.meeting(), "a collective that not every stage comes to");
    if (stage.end() > last.end) last = {stage.end(), stage.computing(), stage.interference()};
  }
  return last;
}

}  // namespace orrery::costmodel

#include "costmodel/pipeline_occupancy.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/lowering/message_bounds.h"

namespace orrery::costmodel {
namespace {

using core::PassKind;
using core::PipelineSchedule;
using core::PipelineShape;
using core::StagePass;

bool holds_no_more(const ChunkHolding& a, const ChunkHolding& b) {
  return a.saved <= b.saved && a.kept <= b.kept &&
         a.activations_received <= b.activations_received &&
         a.gradients_received <= b.gradients_received && a.loads <= b.loads &&
         a.activations_sent <= b.activations_sent && a.gradients_sent <= b.gradients_sent;
}

bool holds_no_more(const PassMoment& a, const PassMoment& b) {
  for (std::size_t c = 0; c < a.holds.size(); ++c) {
    if (!holds_no_more(a.holds[c], b.holds[c])) return false;
  }
  return true;
}

/// Of the moments added, those that hold no less than another of the same kind and chunk.
class Fullest {
 public:
  void add(const PassMoment& moment) {
    std::vector<PassMoment>& known = by_pass_[{moment.kind, moment.chunk}];
    // The latest first: schedules repeat themselves.
    for (auto other = known.rbegin(); other != known.rend(); ++other) {
      if (holds_no_more(moment, *other)) return;
    }
    known.erase(std::remove_if(known.begin(), known.end(),
                               [&](const auto& other) { return holds_no_more(other, moment); }),
                known.end());
    known.push_back(moment);
  }
  std::vector<PassMoment> take() {
    std::vector<PassMoment> all;
    for (auto& [pass, moments] : by_pass_) {
      for (PassMoment& moment : moments) all.push_back(std::move(moment));
    }
    return all;
  }

 private:
  std::map<std::pair<PassKind, std::size_t>, std::vector<PassMoment>> by_pass_;
};

/// What one stage holds in the course of its passes.
class Walk {
 public:
  Walk(const PipelineShape& shape, int stage, const ChunkKinds& kinds,
       const std::vector<StagePass>& passes)
      : shape_(shape),
        stage_(stage),
        kind_of_(kinds),
        passes_(passes),
        chunks_(static_cast<std::size_t>(shape.chunks)),
        kinds_(*std::max_element(kinds.begin(), kinds.end()) + 1),
        changes_((passes.size() + 1) * kinds_),
        backward_of_(static_cast<std::size_t>(shape.microbatches) * chunks_) {}

  std::vector<PassMoment> fullest_moments() {
    count_microbatches();
    for (std::size_t i = 0; i < passes_.size(); ++i) place_messages(i);
    count_fetches(&ChunkHolding::activations_received, activations_in_);
    count_fetches(&ChunkHolding::gradients_received, gradients_in_);
    count_fetches(&ChunkHolding::loads, loads_);
    count_sends(&ChunkHolding::activations_sent, activations_out_);
    count_sends(&ChunkHolding::gradients_sent, gradients_out_);
    Fullest fullest;
    PassMoment now{PassKind::Forward, 0, std::vector<ChunkHolding>(kinds_)};
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      for (std::size_t k = 0; k < kinds_; ++k) change(now.holds[k], changes_[i * kinds_ + k]);
      now.kind = passes_[i].kind;
      now.chunk = kind_of(passes_[i].chunk);
      fullest.add(now);
    }
    return fullest.take();
  }

 private:
  using Count = int ChunkHolding::*;

  std::size_t kind_of(int chunk) const { return kind_of_[static_cast<std::size_t>(chunk)]; }
  bool starts_model(int chunk) const { return stage_ == 0 && chunk == 0; }
  bool ends_model(int chunk) const {
    return stage_ + 1 == shape_.stages && chunk + 1 == shape_.chunks;
  }

  static void change(ChunkHolding& now, const ChunkHolding& by) {
    now.saved += by.saved;
    now.kept += by.kept;
    now.activations_received += by.activations_received;
    now.gradients_received += by.gradients_received;
    now.loads += by.loads;
    now.activations_sent += by.activations_sent;
    now.gradients_sent += by.gradients_sent;
  }

  /// One more of it from the `first`-th pass on, until the `end`-th.
  void add(Count count, int chunk, std::size_t first, std::size_t end) {
    if (first >= end) return;
    ++(changes_[first * kinds_ + kind_of(chunk)].*count);
    --(changes_[end * kinds_ + kind_of(chunk)].*count);
  }

  /// While a pass runs its microbatch is the pass's own.
  void count_microbatches() {
    const std::size_t end = passes_.size();
    for (std::size_t i = 0; i < end; ++i) {
      ChunkHolding& at = changes_[i * kinds_ + kind_of(passes_[i].chunk)];
      ChunkHolding& after = changes_[(i + 1) * kinds_ + kind_of(passes_[i].chunk)];
      const PassKind kind = passes_[i].kind;
      if (kind == PassKind::Backward || kind == PassKind::InputGrad) --at.saved;
      if (kind == PassKind::WeightGrad) --at.kept;
      if (kind == PassKind::Forward) ++after.saved;
      if (kind == PassKind::InputGrad) ++after.kept;
    }
  }

  std::size_t& backward_of(const StagePass& pass) {
    return backward_of_[static_cast<std::size_t>(pass.microbatch) * chunks_ +
                        static_cast<std::size_t>(pass.chunk)];
  }

  void place_messages(std::size_t i) {
    const StagePass& pass = passes_[i];
    if (pass.kind == PassKind::WeightGrad) return;
    const bool starts = starts_model(pass.chunk);
    const bool ends = ends_model(pass.chunk);
    if (pass.kind == PassKind::Forward) {
      if (!starts) activations_in_.push_back(i);
      if (starts || ends) loads_.push_back(i);
      if (!ends) activations_out_.push_back(i);
    } else {
      if (!ends) gradients_in_.push_back(i);
      if (!starts) gradients_out_.push_back(i);
      backward_of(pass) = i;
    }
  }

  void count_fetches(Count count, const std::vector<std::size_t>& passes) {
    constexpr std::size_t kAhead = core::kMessagesAhead;
    for (std::size_t k = 0; k < passes.size(); ++k) {
      const std::size_t from = k < kAhead ? 0 : passes[k - kAhead] + 1;
      add(count, passes_[passes[k]].chunk, from, passes[k]);
    }
  }

  void count_sends(Count count, const std::vector<std::size_t>& passes) {
    constexpr std::size_t kAhead = core::kMessagesAhead;
    for (std::size_t k = 0; k < passes.size(); ++k) {
      const StagePass& pass = passes_[passes[k]];
      std::size_t until = k + kAhead < passes.size() ? passes[k + kAhead] : passes_.size();
      if (pass.kind == PassKind::Forward) until = std::min(until, backward_of(pass));
      add(count, pass.chunk, passes[k] + 1, until);
    }
  }

  const PipelineShape& shape_;
  int stage_;
  const ChunkKinds& kind_of_;
  const std::vector<StagePass>& passes_;
  std::size_t chunks_, kinds_;
  std::vector<ChunkHolding> changes_;  ///< By pass and kind: when it begins, of what is held.
  /// Passes that have a message of each kind, in order.
  std::vector<std::size_t> activations_in_, gradients_in_, loads_, activations_out_, gradients_out_;
  std::vector<std::size_t> backward_of_;  ///< By microbatch and chunk.
};

PipelineShape shortened(const PipelineShape& shape) {
  // Every stage's warm-up, twice.
  const int enough = shape.schedule == PipelineSchedule::GPipe
                         ? 8
                         : 4 * shape.stages + (8 / shape.stages + 1) * shape.stages;
  PipelineShape shorter = shape;
  shorter.microbatches = std::min(shape.microbatches, enough);
  return shorter;
}

std::vector<PassMoment> moments_of(const PipelineShape& shape, int stage, const ChunkKinds& kinds,
                                   const std::vector<StagePass>& shorter_passes) {
  const PipelineShape shorter = shortened(shape);
  std::vector<PassMoment> moments = Walk(shorter, stage, kinds, shorter_passes).fullest_moments();
  if (shape.schedule == PipelineSchedule::GPipe) {
    // All further microbatches wait too.
    for (PassMoment& moment : moments) {
      moment.holds[0].saved += shape.microbatches - shorter.microbatches;
    }
  }
  return moments;
}

}  // namespace

PipelineShape as_full(const PipelineShape& shape) {
  const bool grows = shape.schedule == PipelineSchedule::GPipe;
  return grows || core::computed_from_durations(shape.schedule) ? shape : shortened(shape);
}

std::vector<PassMoment> fullest_moments(const PipelineShape& shape, int stage,
                                        const ChunkKinds& kinds) {
  return moments_of(shape, stage, kinds, core::stage_passes(shortened(shape), stage));
}

std::vector<std::vector<PassMoment>> fullest_moments(const PipelineShape& shape) {
  std::vector<std::vector<PassMoment>> result;
  int stage = 0;
  for (const auto& passes : core::pipeline_passes(shortened(shape))) {
    result.push_back(moments_of(shape, stage++, {0}, passes));
  }
  return result;
}

}  // namespace orrery::costmodel

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

/// The moments of one stage's passes, in order.
class Walk {
 public:
  Walk(const PipelineShape& shape, int stage, const std::vector<StagePass>& passes)
      : shape_(shape), stage_(stage), passes_(passes) {
    for (const StagePass& pass : passes) {
      moments_.push_back({pass.kind, pass.chunk,
                          std::vector<ChunkHolding>(static_cast<std::size_t>(shape.chunks))});
    }
  }

  std::vector<PassMoment> moments() {
    count_microbatches();
    for (std::size_t i = 0; i < passes_.size(); ++i) place_messages(i);
    count_fetches(&ChunkHolding::activations_received, activations_in_);
    count_fetches(&ChunkHolding::gradients_received, gradients_in_);
    count_fetches(&ChunkHolding::loads, loads_);
    count_sends(&ChunkHolding::activations_sent, activations_out_);
    count_sends(&ChunkHolding::gradients_sent, gradients_out_);
    return std::move(moments_);
  }

 private:
  using Count = int ChunkHolding::*;

  bool starts_model(int chunk) const { return stage_ == 0 && chunk == 0; }
  bool ends_model(int chunk) const {
    return stage_ + 1 == shape_.stages && chunk + 1 == shape_.chunks;
  }

  void add(Count count, int chunk, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      ++(moments_[i].holds[static_cast<std::size_t>(chunk)].*count);
    }
  }

  void count_microbatches() {
    std::vector<ChunkHolding> now(static_cast<std::size_t>(shape_.chunks));
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      ChunkHolding& chunk = now[static_cast<std::size_t>(passes_[i].chunk)];
      const PassKind kind = passes_[i].kind;
      if (kind == PassKind::Backward || kind == PassKind::InputGrad) --chunk.saved;
      if (kind == PassKind::WeightGrad) --chunk.kept;
      moments_[i].holds = now;
      if (kind == PassKind::Forward) ++chunk.saved;
      if (kind == PassKind::InputGrad) ++chunk.kept;
    }
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
      backward_of_[{pass.microbatch, pass.chunk}] = i;
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
      if (pass.kind == PassKind::Forward) {
        until = std::min(until, backward_of_.at({pass.microbatch, pass.chunk}));
      }
      add(count, pass.chunk, passes[k] + 1, until);
    }
  }

  const PipelineShape& shape_;
  int stage_;
  const std::vector<StagePass>& passes_;
  std::vector<PassMoment> moments_;
  /// Passes that have a message of each kind, in order.
  std::vector<std::size_t> activations_in_, gradients_in_, loads_, activations_out_, gradients_out_;
  std::map<std::pair<int, int>, std::size_t> backward_of_;  ///< By microbatch and chunk.
};

bool holds_no_more(const ChunkHolding& a, const ChunkHolding& b) {
  return a.saved <= b.saved && a.kept <= b.kept &&
         a.activations_received <= b.activations_received &&
         a.gradients_received <= b.gradients_received && a.loads <= b.loads &&
         a.activations_sent <= b.activations_sent && a.gradients_sent <= b.gradients_sent;
}

bool holds_no_more(const PassMoment& a, const PassMoment& b) {
  if (a.kind != b.kind || a.chunk != b.chunk) return false;
  for (std::size_t c = 0; c < a.holds.size(); ++c) {
    if (!holds_no_more(a.holds[c], b.holds[c])) return false;
  }
  return true;
}

std::vector<PassMoment> without_lesser(std::vector<PassMoment> moments) {
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  std::vector<PassMoment> kept;
  for (const PassMoment& moment : moments) {
    const bool lesser = std::any_of(moments.begin(), moments.end(), [&](const PassMoment& other) {
      return &other != &moment && holds_no_more(moment, other);
    });
    if (!lesser) kept.push_back(moment);
  }
  return kept;
}

/// Microbatches after which a schedule only repeats itself: every stage's warm-up, twice.
int enough_microbatches(const PipelineShape& shape) {
  if (shape.schedule == PipelineSchedule::GPipe) return 8;
  return 4 * shape.stages + (shape.stages < 8 ? 8 / shape.stages + 1 : 1) * shape.stages;
}

PipelineShape shortened(const PipelineShape& shape) {
  PipelineShape shorter = shape;
  shorter.microbatches = std::min(shape.microbatches, enough_microbatches(shape));
  return shorter;
}

std::vector<PassMoment> moments_of(const PipelineShape& shape, int stage,
                                   const std::vector<StagePass>& shorter_passes) {
  const PipelineShape shorter = shortened(shape);
  std::vector<PassMoment> moments = Walk(shorter, stage, shorter_passes).moments();
  if (shape.schedule == PipelineSchedule::GPipe) {
    // All further microbatches wait too.
    for (PassMoment& moment : moments) {
      moment.holds[0].saved += shape.microbatches - shorter.microbatches;
    }
  }
  return without_lesser(std::move(moments));
}

}  // namespace

std::vector<PassMoment> fullest_moments(const PipelineShape& shape, int stage) {
  return moments_of(shape, stage, core::stage_passes(shortened(shape), stage));
}

std::vector<std::vector<PassMoment>> fullest_moments(const PipelineShape& shape) {
  std::vector<std::vector<PassMoment>> result;
  int stage = 0;
  for (const auto& passes : core::pipeline_passes(shortened(shape))) {
    result.push_back(moments_of(shape, stage++, passes));
  }
  return result;
}

}  // namespace orrery::costmodel

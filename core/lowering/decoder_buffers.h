#pragma once
// The buffers of a decoder's stage: what they hold and how long they live.

#include <array>
#include <optional>
#include <vector>

#include "core/lowering/decoder_shape.h"

namespace orrery::core {

/// What one layer's forward leaves for its backward. `inside`: of flash attention its log-sum-exp
/// F[sequences, heads, sequence], of plain attention the softmax F[sequences, heads, sequence,
/// sequence]. `attended` is the output of attention, of the heads and rows that it saw; `attention`
/// what the projection reads, the same unless a context group exchanges them.
/// Of a layer's experts: the router's weights and places, what the experts read
/// F[experts here, rows of each, hidden], and what came back to the rows' rank F[slots, hidden].
struct ExpertBuffers {
  BufferId weights, places, input, returned;
};
struct LayerBuffers {
  BufferId norm1, norm1_statistics, qkv, attended, attention, inside, middle, norm2,
      norm2_statistics, up, activated;
  std::optional<ExpertBuffers> experts;
};
/// Gradients of one layer's parts. One buffer holds input, middle and output in turn, unless a
/// later pass needs each.
struct LayerGradients {
  BufferId input, middle, output, up, qkv;
  std::optional<BufferId> expert_output, router;  ///< Where a layer has experts.
};
struct HeadBuffers {
  BufferId norm, norm_statistics, logits, statistics, all_statistics;
};

/// Where rows are on their way between routing and experts: slots of this rank's rows, sent and
/// received, all that a tensor group's ranks have received, what the experts make of them and its
/// gradient, and the gradients of slots and weights.
struct ExpertScratch {
  BufferId logits, output, dinput, dslots, dweights;
  std::optional<BufferId> sent, received, gathered;  ///< Where they take this way.
};

struct StageBuffers {
  BufferId values, gradients, loss, norm_sum, norm;
  std::vector<BufferId> state;  ///< Of the optimizer.
  std::optional<BufferId> tokens, targets;
  std::vector<BufferId> x;  ///< Input of each layer of all chunks.
  std::vector<BufferId> y;  ///< Its output: the input of the next, but at a chunk's end.
  std::vector<LayerBuffers> layers;
  std::optional<HeadBuffers> head;
  BufferId projected;  ///< Output of a row-parallel product before it joins the residual.
  /// All rows of a column-parallel input or of an output's gradient; of an input for its weight
  /// gradient. With sequence parallelism only. They live throughout, so that a gather may start
  /// whenever the one before it has been read.
  std::optional<BufferId> gathered, gathered_again;
  /// Context parallelism only: qkv by rows; what is sent and received; gradients by heads.
  std::optional<BufferId> qkv_rows, sent, received, dattended, dqkv_heads;
  std::array<BufferId, 2> kv, dkv;  ///< Going round the ring: at hand, and arriving.
  std::optional<BufferId> dscores;  ///< Plain attention only.
  BufferId dnorm, dactivated, dattention;
  std::optional<ExpertScratch> expert;
  std::vector<LayerGradients> gradients_of;  ///< By layer of the slice.
  /// By bucket; absent where the stage of sharding needs none.
  std::vector<std::optional<BufferId>> full_gradients, gathered_parameters;
};

/// Adds the stage's buffers and parameters to `role`.
StageBuffers add_stage_buffers(const StageShape&, Role& role);

}  // namespace orrery::core

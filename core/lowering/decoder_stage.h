#pragma once
// Instructions of one pipeline stage of a decoder (GPT-2, Llama): forward, backward, optimizer
// step.
//
// One layer, per tensor-parallel rank (t ranks, rows = microbatch · sequence):
//
//   x ─ normalize ─ qkv[·, H/t] ─ (rotate) ─ attention ─ out[H, ·/t] ─ all-reduce ─ + ─ x1
//   x1 ─ normalize ─ up[F/t, ·] ─ activate ─ down[·, F/t] ─ all-reduce ─ + ─ x of the next layer
//
// and backward with the all-reduces at the two column-parallel inputs. The weight gradient of a
// column-parallel product is issued after its input gradient, so that it runs beside the
// all-reduce. Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053; layer structure: Radford et
// al. 2019 (GPT-2), Touvron et al. 2023 (Llama 2).

#include <optional>
#include <string>
#include <vector>

#include "core/job.h"
#include "core/lowering/block_builder.h"
#include "core/lowering/parameter_layout.h"
#include "core/plan.h"

namespace orrery::core {

/// Slots of a role; a group of one rank has none, so nothing is communicated.
struct StageSlots {
  std::optional<GroupSlot> tensor, data, sharding, model, world, tied_embedding;
  std::optional<PeerSlot> previous, next;
};

class DecoderStage {
 public:
  /// Adds the stage's buffers and parameters to `role`.
  DecoderStage(const Transformer&, const DensePlan&, const Job&, const StageSlice&,
               const StageSlots&, Role& role);

  Block begin() const;     ///< Clears gradients and sums.
  Block forward() const;   ///< One microbatch.
  Block backward() const;  ///< One microbatch.
  Block step() const;      ///< Gradient reduction, clipping, optimizer update.

 private:
  /// What one layer's forward leaves for its backward.
  struct LayerBuffers {
    BufferId norm1, norm1_statistics, qkv, attention, log_sum_exp, middle, norm2, norm2_statistics,
        up, activated;
  };
  struct HeadBuffers {
    BufferId norm, norm_statistics, logits, statistics, all_statistics;
  };

  BufferId activation(const std::string& name, std::vector<std::int64_t> shape,
                      BufferScope scope) const;
  BufferId buffer(const std::string& name, DType, std::vector<std::int64_t> shape, BufferKind,
                  BufferScope) const;
  LayerBuffers layer_buffers(const std::string& prefix, BufferScope) const;
  void add_run_buffers();
  void add_activation_buffers();
  void add_head_buffers();
  void add_scratch_buffers();

  void forward_attention(BlockBuilder&, int layer) const;
  void forward_feed_forward(BlockBuilder&, int layer) const;
  void forward_head(BlockBuilder&) const;
  void recompute_layer(BlockBuilder&, int layer) const;
  void backward_head(BlockBuilder&) const;
  void backward_feed_forward(BlockBuilder&, int layer) const;
  void backward_attention(BlockBuilder&, int layer) const;
  void reduce_bucket(BlockBuilder&, std::size_t bucket) const;
  void update_bucket(BlockBuilder&, std::size_t bucket, std::int64_t state_first) const;
  void normalize(BlockBuilder&, const std::string& label, BufferId x, BufferId y,
                 BufferId statistics, ParameterRange weight,
                 std::optional<ParameterRange> bias) const;
  void normalize_grad(BlockBuilder&, const std::string& label, BufferId dy, BufferId x,
                      BufferId statistics, ParameterRange weight,
                      std::optional<ParameterRange> bias, bool accumulate) const;
  void linear(BlockBuilder&, const std::string& label, BufferId x, BufferId y, std::int64_t out,
              std::int64_t in, ParameterRange weight, std::optional<ParameterRange> bias) const;
  void linear_input_grad(BlockBuilder&, const std::string& label, BufferId dy, BufferId dx,
                         std::int64_t out, std::int64_t in, ParameterRange weight) const;
  void linear_weight_grad(BlockBuilder&, const std::string& label, BufferId dy, BufferId x,
                          std::int64_t out, std::int64_t in, ParameterRange weight,
                          std::optional<ParameterRange> bias) const;
  void reduce_tensor(BlockBuilder&, const std::string& label, BufferId) const;

  View value(ParameterRange range) const;     ///< Of the parameters.
  View gradient(ParameterRange range) const;  ///< Of the gradients.
  View all(BufferId id) const { return whole(role_, id); }
  std::string layer_label(int layer, const char* part) const;

  const Transformer& model_;
  const DensePlan& plan_;
  const Job& job_;
  StageSlice slice_;
  StageSlots slots_;
  Role& role_;
  StageParameters parameters_;
  std::int64_t rows_ = 0;                  ///< Tokens of a microbatch.
  std::int64_t heads_ = 0, kv_heads_ = 0;  ///< On this rank.
  std::int64_t qkv_width_ = 0, attention_width_ = 0, ffn_ = 0, up_width_ = 0, vocab_rows_ = 0;

  BufferId values_, gradients_, loss_, norm_sum_, norm_;
  std::vector<BufferId> state_;
  std::optional<BufferId> tokens_, targets_;
  std::vector<BufferId> x_;  ///< Input of each layer, and the output of the last.
  std::vector<LayerBuffers> layers_;
  std::optional<HeadBuffers> head_;
  BufferId projected_;  ///< Output of a row-parallel product before it joins the residual.
  BufferId dx_;         ///< Gradient of the residual stream, in place through the stage.
  BufferId dnorm_, dup_, dactivated_, dattention_, dqkv_;
};

}  // namespace orrery::core

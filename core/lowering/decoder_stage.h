#pragma once
// Instructions of one pipeline rank of a decoder (GPT-2, Llama): forward and backward of each of its
// chunks of layers, optimizer step.
//
// One layer, per tensor-parallel rank (t ranks, rows = microbatch · sequence):
//
//   x ─ normalize ─ qkv[·, H/t] ─ (rotate) ─ attention ─ out[H, ·/t] ─ all-reduce ─ + ─ x1
//   x1 ─ normalize ─ up[F/t, ·] ─ activate ─ down[·, F/t] ─ all-reduce ─ + ─ x of the next layer
//
// and backward with the all-reduces at the two column-parallel inputs. The weight gradient of a
// column-parallel product is issued after its input gradient, so that it runs beside the
// all-reduce. Zero-bubble schedules run all weight gradients of a chunk in a pass of their own;
// what they read (inputs and output gradients of each product) lives until then.
// Source: Shoeybi et al., Megatron-LM, arXiv 1909.08053; layer structure: Radford et
// al. 2019 (GPT-2), Touvron et al. 2023 (Llama 2); the split: Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024.
//
// With context parallelism the ranks of a context group hold parts of each sequence (SequencePart).
// By all-to-all, attention sees whole sequences of a part of the heads; by ring, keys and values go
// round the group while each rank's queries attend to those it has (decoder_context.cpp). Gradients
// are summed over the group as over data ways. Source: Jacobs et al., DeepSpeed Ulysses, arXiv
// 2309.14509; Liu et al., Ring Attention, arXiv 2310.01889.
//
// Recompute: a layer that recomputes in full keeps its input alone, and its forward runs again before
// its backward. Selectively, only the inside of attention is computed again: plain attention's scores
// and softmax; with flash attention (which keeps a log-sum-exp alone) all of it, as frameworks do.
//
// ZeRO stage 2 reduces a bucket's gradients within each backward pass and keeps this rank's slice;
// stage 3 gathers a bucket's parameters before its forward and again before its backward
// (decoder_sharding.cpp). Source: Rajbhandari et al., ZeRO, SC 2020.
//
// With sequence parallelism each rank keeps rows/t of the residual stream and of what is normalised.
// Each all-reduce becomes a reduce-scatter over rows, and an all-gather where all rows are read:
//
//   x ─ normalize ─ all-gather ─ qkv ─ ... ─ out ─ reduce-scatter ─ + ─ x1
//
// Backward gathers the gradients of row-parallel outputs, and once more the column-parallel inputs
// that weight gradients read. The weights of normalisations see only a rank's rows, so their
// gradients are summed over the tensor group at the end of the step.
// Source: Korthikanti et al., arXiv 2205.05198, section 4.2.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/job.h"
#include "core/lowering/block_builder.h"
#include "core/lowering/gradient_buckets.h"
#include "core/lowering/parameter_layout.h"
#include "core/plan.h"

namespace orrery::core {

/// Slots of a role; a group of one rank has none, so nothing is communicated.
struct StageSlots {
  std::optional<GroupSlot> tensor, context, data, sharding, model, world, tied_embedding;
  std::optional<PeerSlot> previous, next;            ///< Pipeline stages.
  std::optional<PeerSlot> ring_previous, ring_next;  ///< In the context group.
};

class DecoderStage {
 public:
  /// Adds the stage's buffers and parameters to `role`.
  DecoderStage(const Transformer&, const DensePlan&, const Job&, const StageSlice&,
               const StageSlots&, Role& role);

  Block begin() const;  ///< Clears gradients and sums.
  /// One microbatch through a chunk of the slice. `backward` leaves the weight gradients to
  /// `weight_grad` where splits_backward(plan.schedule).
  Block forward(int chunk) const;
  Block backward(int chunk) const;
  Block weight_grad(int chunk) const;
  Block step() const;  ///< Gradient reduction, clipping, optimizer update.

 private:
  /// What one layer's forward leaves for its backward. `inside`: of flash attention its log-sum-exp
  /// F[sequences, heads, sequence], of plain attention the softmax F[sequences, heads, sequence,
  /// sequence]. `attended` is the output of attention, of the heads and rows that it saw; `attention`
  /// what the projection reads, the same unless a context group exchanges them.
  struct LayerBuffers {
    BufferId norm1, norm1_statistics, qkv, attended, attention, inside, middle, norm2,
        norm2_statistics, up, activated;
  };
  /// Gradients of one layer's parts. One buffer holds input, middle and output in turn, unless a
  /// later pass needs each.
  struct LayerGradients {
    BufferId input, middle, output, up, qkv;
  };
  struct HeadBuffers {
    BufferId norm, norm_statistics, logits, statistics, all_statistics;
  };

  BufferId activation(const std::string& name, std::vector<std::int64_t> shape,
                      BufferScope scope) const;
  BufferId buffer(const std::string& name, DType, std::vector<std::int64_t> shape, BufferKind,
                  BufferScope) const;
  BufferId inside_buffer(const std::string& prefix, BufferScope) const;
  LayerBuffers layer_buffers(const std::string& prefix, BufferScope, BufferId inside) const;
  void add_run_buffers();
  void add_activation_buffers();
  void add_head_buffers();
  void add_scratch_buffers();
  void add_gradient_buffers();

  /// Whether a layer's activations, or its attention's inside, are computed again in backward.
  bool recomputes(int layer, Recompute) const;
  void forward_attention(BlockBuilder&, int layer) const;
  /// From this rank's rows of all heads to all rows of its heads, and back.
  void to_heads(BlockBuilder&, const std::string& label, BufferId rows, BufferId heads,
                bool keys_and_values) const;
  void to_rows(BlockBuilder&, const std::string& label, BufferId heads, BufferId rows,
               bool keys_and_values) const;
  void forward_ring(BlockBuilder&, int layer) const;
  void backward_ring(BlockBuilder&, int layer) const;
  void pass_on(BlockBuilder&, const std::string& label, const std::array<BufferId, 2>& buffers,
               int step) const;
  void forward_inside(BlockBuilder&, int layer) const;
  void backward_inside(BlockBuilder&, int layer) const;
  void activate_feed_forward(BlockBuilder&, int layer) const;
  View project_feed_forward(BlockBuilder&, int layer) const;  ///< This rank's rows of the output.
  void forward_feed_forward(BlockBuilder&, int layer) const;
  void forward_head(BlockBuilder&) const;
  void recompute_layer(BlockBuilder&, int layer) const;
  void backward_head(BlockBuilder&) const;
  void backward_feed_forward(BlockBuilder&, int layer) const;
  void backward_attention(BlockBuilder&, int layer) const;
  // All rows of the input of a column-parallel product, of the output's gradient of a row-parallel
  // one: the other operand is this rank's.
  void head_weight_grad(BlockBuilder&, BufferId input) const;
  void down_weight_grad(BlockBuilder&, int layer, BufferId dy) const;
  void up_weight_grad(BlockBuilder&, int layer, BufferId input) const;
  void out_weight_grad(BlockBuilder&, int layer, BufferId dy) const;
  void qkv_weight_grad(BlockBuilder&, int layer, BufferId input) const;
  void embedding_grad(BlockBuilder&) const;
  void reduce_bucket(BlockBuilder&, std::size_t bucket) const;
  void update_bucket(BlockBuilder&, std::size_t bucket) const;

  void add_sharding_buffers();
  std::size_t bucket_of(ParameterRange) const;
  std::size_t bucket_of_layer(int layer) const;
  bool holds_layers(const GradientBucket&) const;
  /// Whether a layer is its bucket's first, or last, within the layers from `begin` or up to `end`.
  bool begins_bucket(int layer, int begin) const;
  bool ends_bucket(int layer, int end) const;
  /// The token embedding on this rank is its output layer too.
  bool output_is_embedding() const;
  std::vector<std::size_t> head_buckets() const;
  BufferId gathered_into(std::size_t bucket, bool backward) const;
  /// ZeRO stage 3: all of a bucket's parameters, before they are used.
  void gather_parameters(BlockBuilder&, std::size_t bucket) const;
  /// ZeRO stage 2: clears a bucket's full gradients before a backward pass adds to them, and joins
  /// this rank's slice of their sum to its gradients.
  void begin_gradients(BlockBuilder&, std::size_t bucket) const;
  void end_gradients(BlockBuilder&, std::size_t bucket) const;
  View own_gradients(const GradientBucket&) const;  ///< What this rank updates, after reduction.
  View own_values(const GradientBucket&) const;
  void normalize(BlockBuilder&, const std::string& label, BufferId x, BufferId y,
                 BufferId statistics, ParameterRange weight,
                 std::optional<ParameterRange> bias) const;
  /// What a normalisation's gradient is made of: dx = ∂(dy) (+ residual).
  struct NormGradBuffers {
    View dy;
    BufferId x, statistics;
    std::optional<BufferId> residual;
    BufferId dx;
  };
  void normalize_grad(BlockBuilder&, const std::string& label, const NormGradBuffers&,
                      ParameterRange weight, std::optional<ParameterRange> bias) const;
  void linear(BlockBuilder&, const std::string& label, BufferId x, BufferId y, std::int64_t out,
              std::int64_t in, ParameterRange weight, std::optional<ParameterRange> bias) const;
  void linear_input_grad(BlockBuilder&, const std::string& label, BufferId dy, BufferId dx,
                         std::int64_t out, std::int64_t in, ParameterRange weight) const;
  void linear_weight_grad(BlockBuilder&, const std::string& label, BufferId dy, BufferId x,
                          std::int64_t out, std::int64_t in, ParameterRange weight,
                          std::optional<ParameterRange> bias) const;
  /// Sums partial results F[rows, hidden] over the tensor group; this rank's rows of the sum.
  View reduce_tensor(BlockBuilder&, const std::string& label, BufferId) const;
  /// All rows of what each rank of the tensor group has some of, gathered `into` a buffer; `rows`
  /// itself without sequence parallelism.
  BufferId all_rows(BlockBuilder&, const std::string& label, BufferId rows,
                    std::optional<BufferId> into) const;
  /// All rows of a column-parallel product's input for its weight gradient; not needed where that
  /// has a pass of its own.
  BufferId for_weight_grad(BlockBuilder&, const std::string& label, BufferId input) const;
  /// Gradients of normalisation weights, of which each rank has summed its own rows.
  void reduce_normalizations(BlockBuilder&, std::size_t bucket) const;

  /// Of the parameters: where the block has them.
  View value(const BlockBuilder&, ParameterRange range) const;
  View gradient(ParameterRange range) const;  ///< Of the gradients.
  View all(BufferId id) const { return whole(role_, id); }
  std::string layer_label(int layer, const char* part) const;
  std::string block_name(const char* pass, int chunk) const;
  bool starts_model(int chunk) const { return slice_.first && chunk == 0; }
  bool ends_model(int chunk) const { return slice_.last && chunk + 1 == chunk_count(); }
  int chunk_count() const { return static_cast<int>(slice_.chunks.size()); }
  /// First layer of a chunk within the slice; of the chunk after the last: all layers.
  int first_layer(int chunk) const;

  const Transformer& model_;
  const DensePlan& plan_;
  const Job& job_;
  StageSlice slice_;
  StageSlots slots_;
  Role& role_;
  StageParameters parameters_;
  bool exchanges_ = false, rings_ = false;  ///< The methods of context parallelism.
  std::int64_t sequence_ = 0;               ///< Tokens of a sequence that this rank holds.
  SequencePart part_;                       ///< Which ones.
  std::int64_t rows_ = 0;                   ///< Tokens of a microbatch.
  std::int64_t own_rows_ = 0;               ///< Of them in this rank's residual stream.
  std::int64_t heads_ = 0, kv_heads_ = 0;   ///< On this rank.
  std::int64_t attention_sequence_ = 0;     ///< What attention sees: tokens of a sequence,
  int attention_heads_ = 0, attention_kv_heads_ = 0;  ///< and heads.
  std::int64_t qkv_width_ = 0, attention_width_ = 0, ffn_ = 0, up_width_ = 0, vocab_rows_ = 0;

  std::vector<GradientBucket> buckets_;
  /// By bucket; absent where the stage of sharding needs none.
  std::vector<std::optional<BufferId>> full_gradients_, gathered_parameters_;
  BufferId values_, gradients_, loss_, norm_sum_, norm_;
  std::vector<BufferId> state_;
  std::optional<BufferId> tokens_, targets_;
  bool splits_ = false;      ///< Weight gradients have a pass of their own.
  std::vector<BufferId> x_;  ///< Input of each layer of all chunks.
  std::vector<BufferId> y_;  ///< Its output: the input of the next, but at a chunk's end.
  std::vector<LayerBuffers> layers_;
  std::optional<HeadBuffers> head_;
  BufferId projected_;  ///< Output of a row-parallel product before it joins the residual.
  /// All rows of a column-parallel input or of an output's gradient; of an input for its weight
  /// gradient. With sequence parallelism only. They live throughout, so that a gather may start
  /// whenever the one before it has been read.
  std::optional<BufferId> gathered_, gathered_again_;
  /// Context parallelism only: qkv by rows; what is sent and received; gradients by heads.
  std::optional<BufferId> qkv_rows_, sent_, received_, dattended_, dqkv_heads_;
  std::array<BufferId, 2> kv_, dkv_;  ///< Going round the ring: at hand, and arriving.
  std::optional<BufferId> dscores_;   ///< Plain attention only.
  BufferId dnorm_, dactivated_, dattention_;
  std::vector<LayerGradients> gradients_of_;  ///< By layer of the slice.
};

}  // namespace orrery::core

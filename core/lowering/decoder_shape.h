#pragma once
// What is known of a decoder's pipeline stage before any of its buffers: its layers and parameters,
// how many rows, heads and columns a rank has of them, and the slots of its groups and peers.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/job.h"
#include "core/lowering/gradient_buckets.h"
#include "core/lowering/parameter_layout.h"
#include "core/plan.h"

namespace orrery::core {

/// Slots of a role; a group of one rank has none, so nothing is communicated.
struct StageSlots {
  std::optional<GroupSlot> tensor, context, expert, data, sharding, expert_data, expert_sharding;
  std::optional<GroupSlot> model, world, tied_embedding;
  std::optional<PeerSlot> previous, next;            ///< Pipeline stages.
  std::optional<PeerSlot> ring_previous, ring_next;  ///< In the context group.
};

struct StageShape {
  StageShape(const Transformer&, const DensePlan&, const Job&, const StageSlice&,
             const StageSlots&);

  const Transformer& model;
  const DensePlan& plan;
  const Job& job;
  StageSlice slice;
  StageSlots slots;
  StageParameters parameters;
  std::vector<GradientBucket> buckets;
  bool splits = false;                              ///< Weight gradients have a pass of their own.
  bool exchanges = false, rings = false;            ///< The methods of context parallelism.
  std::int64_t sequence = 0;                        ///< Tokens of a sequence that this rank holds.
  SequencePart part;                                ///< Which ones.
  std::int64_t rows = 0;                            ///< Tokens of a microbatch.
  std::int64_t own_rows = 0;                        ///< Of them in this rank's residual stream.
  std::int64_t heads = 0, kv_heads = 0;             ///< On this rank.
  std::int64_t attention_sequence = 0;              ///< What attention sees: tokens of a sequence,
  int attention_heads = 0, attention_kv_heads = 0;  ///< and heads.
  std::int64_t qkv_width = 0, attention_width = 0, ffn = 0, up_width = 0, vocab_rows = 0;
  std::int64_t ffn_rows = 0;  ///< What a feed-forward layer sees: tokens, or all slots of experts.
  std::int64_t capacity = 0;  ///< Slots that an expert has for the rows of one rank.
  int local_experts = 0;      ///< Of a layer, on this rank; 0 without.
  int expert_parts = 1;       ///< Ranks whose rows they see.

  bool starts_model(int chunk) const { return slice.first && chunk == 0; }
  bool ends_model(int chunk) const { return slice.last && chunk + 1 == chunk_count(); }
  int chunk_count() const { return static_cast<int>(slice.chunks.size()); }
  /// First layer of a chunk within the slice; of the chunk after the last: all layers.
  int first_layer(int chunk) const;
  /// Whether a layer's activations, or its attention's inside, are computed again in backward.
  bool recomputes(int layer, Recompute) const;
  bool has_experts() const { return local_experts > 0; }
  /// Every rank of a tensor group has rows of its own for the group's experts.
  bool gathers_for_experts() const { return plan.sequence_parallel && plan.expert_tensor > 1; }
  /// Slots of all experts for the rows of this rank.
  std::int64_t expert_slots() const { return capacity * model.experts; }
  /// Whose slices of a bucket and who reduces it.
  std::optional<GroupSlot> sharding_of(const GradientBucket&) const;
  std::optional<GroupSlot> data_of(const GradientBucket&) const;
  /// The token embedding on this rank is its output layer too.
  bool output_is_embedding() const;

  std::string layer_label(int layer, const char* part_of_it) const;
  std::string block_name(const char* pass, int chunk) const;
};

}  // namespace orrery::core

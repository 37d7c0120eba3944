#include "core/lowering/decoder_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {

namespace {

/// Slots of an expert for the rows that a rank routes: expert_capacity times an even share, but no more
/// than there are rows, of which none chooses an expert twice. Rounded up for the smallest microbatch
/// and repeated for each further one, so that a microbatch of n sequences has n times the slots of one.
std::int64_t slots_of_expert(const Transformer& model, const DensePlan& plan, std::int64_t sequence,
                             std::int64_t rows) {
  if (model.experts == 1) return 0;
  const std::int64_t unit =
      plan.sequence_parallel ? sequence / std::gcd(std::int64_t{plan.tensor}, sequence) : sequence;
  const double share = static_cast<double>(unit) * model.experts_per_token / model.experts;
  const auto room = static_cast<std::int64_t>(std::ceil(plan.expert_capacity * share));
  return rows / unit * std::min(room, unit);
}

}  // namespace

StageShape::StageShape(const Transformer& transformer, const DensePlan& dense, const Job& training,
                       const StageSlice& held, const StageSlots& given)
    : model(transformer),
      plan(dense),
      job(training),
      slice(held),
      slots(given),
      parameters(stage_parameters(model, slice)),
      buckets(gradient_buckets(parameters, slice, plan, slots.tied_embedding.has_value())),
      splits(splits_backward(plan.schedule)),
      exchanges(plan.context > 1 && plan.context_method == ContextMethod::AllToAll),
      rings(plan.context > 1 && plan.context_method == ContextMethod::Ring),
      sequence(job.sequence / plan.context),
      part{plan.context, rings},
      rows(plan.microbatch * sequence),
      own_rows(plan.sequence_parallel ? rows / plan.tensor : rows),
      heads(model.heads / plan.tensor),
      kv_heads(model.kv_heads / plan.tensor),
      attention_sequence(exchanges ? job.sequence : sequence),
      attention_heads(static_cast<int>(heads) / (exchanges ? plan.context : 1)),
      attention_kv_heads(static_cast<int>(kv_heads) / (exchanges ? plan.context : 1)),
      qkv_width((heads + 2 * kv_heads) * model.head_dim),
      attention_width(heads * model.head_dim),
      ffn(model.ffn / (model.experts > 1 ? plan.expert_tensor : plan.tensor)),
      up_width(model.gated() ? 2 * ffn : ffn),
      vocab_rows(vocabulary_rows(model, plan.tensor)),
      ffn_rows(rows),
      capacity(slots_of_expert(model, plan, sequence, own_rows)) {
  if (model.experts == 1) return;
  local_experts = model.experts / plan.expert_ways();
  expert_parts = plan.expert_ways() * (gathers_for_experts() ? plan.tensor : 1);
  ffn_rows = local_experts * expert_parts * capacity;
}

int StageShape::first_layer(int chunk) const {
  int layer = 0;
  for (int c = 0; c < chunk; ++c) layer += slice.chunks[static_cast<std::size_t>(c)].count;
  return layer;
}

bool StageShape::recomputes(int layer, Recompute what) const {
  return plan.recompute == what && layer < plan.recompute_layers.value_or(slice.layers());
}

std::optional<GroupSlot> StageShape::sharding_of(const GradientBucket& bucket) const {
  return bucket.experts ? slots.expert_sharding : slots.sharding;
}

std::optional<GroupSlot> StageShape::data_of(const GradientBucket& bucket) const {
  return bucket.experts ? slots.expert_data : slots.data;
}

bool StageShape::output_is_embedding() const {
  return parameters.token_embedding && parameters.output_weight &&
         parameters.output_weight->first == parameters.token_embedding->first;
}

std::string StageShape::layer_label(int layer, const char* part_of_it) const {
  return "layers." + std::to_string(slice.model_layer(layer)) + "." + part_of_it;
}

std::string StageShape::block_name(const char* pass, int chunk) const {
  return chunk_count() == 1 ? pass : fmt::format("{} {}", pass, chunk);
}

}  // namespace orrery::core

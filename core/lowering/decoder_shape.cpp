#include "core/lowering/decoder_shape.h"

#include <fmt/format.h>

#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {

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
      ffn(model.ffn / plan.tensor),
      up_width(model.gated() ? 2 * ffn : ffn),
      vocab_rows(vocabulary_rows(model, plan.tensor)) {}

int StageShape::first_layer(int chunk) const {
  int layer = 0;
  for (int c = 0; c < chunk; ++c) layer += slice.chunks[static_cast<std::size_t>(c)].count;
  return layer;
}

bool StageShape::recomputes(int layer, Recompute what) const {
  return plan.recompute == what && layer < plan.recompute_layers.value_or(slice.layers());
}

bool StageShape::holds_layers(const GradientBucket& bucket) const {
  const int first = parameters.has_embedding ? 1 : 0;
  const int end = first + slice.layers();
  return bucket.first_part < end && bucket.last_part >= first;
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

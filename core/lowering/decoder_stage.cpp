#include "core/lowering/decoder_stage.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {

DecoderStage::DecoderStage(const Transformer& model, const DensePlan& plan, const Job& job,
                           const StageSlice& slice, const StageSlots& slots, Role& role)
    : model_(model),
      plan_(plan),
      job_(job),
      slice_(slice),
      slots_(slots),
      role_(role),
      parameters_(stage_parameters(model, slice)),
      rows_(std::int64_t{plan.microbatch} * job.sequence),
      own_rows_(plan.sequence_parallel ? rows_ / plan.tensor : rows_),
      heads_(model.heads / plan.tensor),
      kv_heads_(model.kv_heads / plan.tensor),
      qkv_width_((heads_ + 2 * kv_heads_) * model.head_dim),
      attention_width_(heads_ * model.head_dim),
      ffn_(model.ffn / plan.tensor),
      up_width_(model.gated() ? 2 * ffn_ : ffn_),
      vocab_rows_(vocabulary_rows(model, plan.tensor)),
      splits_(splits_backward(plan.schedule)) {
  add_run_buffers();
  add_activation_buffers();
  if (slice_.last) add_head_buffers();
  add_scratch_buffers();
}

// ---- buffers -------------------------------------------------------------------------------

BufferId DecoderStage::buffer(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                              BufferKind kind, BufferScope scope) const {
  return add_buffer(role_, {name, dtype, std::move(shape), kind, scope});
}

BufferId DecoderStage::activation(const std::string& name, std::vector<std::int64_t> shape,
                                  BufferScope scope) const {
  return buffer(name, job_.precision, std::move(shape), BufferKind::Activations, scope);
}

void DecoderStage::add_run_buffers() {
  const std::int64_t count = parameters_.parameters.elements;
  const std::int64_t shard = count / slice_.sharding_ways;
  const auto run = [&](const char* name, DType dtype, std::int64_t n, BufferKind kind) {
    return buffer(name, dtype, {n}, kind, BufferScope::Run);
  };
  values_ = run("parameters", job_.precision, count, BufferKind::Parameters);
  gradients_ = run("gradients", DType::Float32, count, BufferKind::Gradients);
  if (dtype_bytes(job_.precision) < dtype_bytes(DType::Float32)) {
    state_.push_back(run("master parameters", DType::Float32, shard, BufferKind::OptimizerState));
  }
  const bool moments =
      job_.optimizer.kind == OptimizerKind::AdamW || job_.optimizer.kind == OptimizerKind::Adam;
  if (moments) {
    state_.push_back(run("first moment", DType::Float32, shard, BufferKind::OptimizerState));
    state_.push_back(run("second moment", DType::Float32, shard, BufferKind::OptimizerState));
  } else if (job_.optimizer.kind == OptimizerKind::AdaGrad) {
    state_.push_back(run("squared gradients", DType::Float32, shard, BufferKind::OptimizerState));
  }
  loss_ = run("loss", DType::Float32, 1, BufferKind::Statistics);
  norm_sum_ = run("squared gradient norm", DType::Float32, 1, BufferKind::Statistics);
  norm_ = run("gradient norm", DType::Float32, 2, BufferKind::Statistics);
  role_.loss = loss_;
  role_.norm = norm_;
  role_.tensor_group = slots_.tensor;
  role_.parameters = parameters_.parameters;
  role_.parameters.values = values_;
  role_.parameters.gradients = gradients_;
  role_.parameters.optimizer_state = state_;
}

DecoderStage::LayerBuffers DecoderStage::layer_buffers(const std::string& prefix,
                                                       BufferScope scope) const {
  const std::int64_t statistics = model_.normalization == Normalization::LayerNorm ? 2 : 1;
  const auto make = [&](const char* name, std::int64_t width) {
    return activation(prefix + name, {rows_, width}, scope);
  };
  const auto make_own = [&](const char* name) {
    return activation(prefix + name, {own_rows_, model_.hidden}, scope);
  };
  const auto make_statistics = [&](const char* name, std::int64_t rows, std::int64_t width) {
    return buffer(prefix + name, DType::Float32, {rows, width}, BufferKind::Statistics, scope);
  };
  LayerBuffers b;
  b.norm1 = make_own("norm1");
  b.norm1_statistics = make_statistics("norm1.statistics", own_rows_, statistics);
  b.qkv = make("qkv", qkv_width_);
  b.attention = make("attention", attention_width_);
  b.log_sum_exp = make_statistics("attention.log_sum_exp", rows_, heads_);
  b.middle = make_own("middle");
  b.norm2 = make_own("norm2");
  b.norm2_statistics = make_statistics("norm2.statistics", own_rows_, statistics);
  b.up = make("up", up_width_);
  b.activated = make("activated", ffn_);
  return b;
}

void DecoderStage::add_activation_buffers() {
  const BufferScope microbatch = BufferScope::Microbatch;
  const std::vector<std::int64_t> token_shape = {plan_.microbatch, job_.sequence};
  if (slice_.first || slice_.last) {
    tokens_ = buffer("tokens", DType::Int32, token_shape, BufferKind::Input, microbatch);
    targets_ = buffer("targets", DType::Int32, token_shape, BufferKind::Input, microbatch);
  }
  const auto input_of = [&](int model_layer) {
    return activation(fmt::format("layers.{}.input", model_layer), {own_rows_, model_.hidden},
                      microbatch);
  };
  for (const LayerRange& chunk : slice_.chunks) {
    BufferId next = input_of(chunk.first);
    for (int l = 0; l < chunk.count; ++l) {
      x_.push_back(next);
      y_.push_back(next = input_of(chunk.first + l + 1));
    }
  }
  if (plan_.recompute == Recompute::Full) {
    layers_.assign(static_cast<std::size_t>(slice_.layers()),
                   layer_buffers("layer.", BufferScope::Call));
    return;
  }
  for (int l = 0; l < slice_.layers(); ++l) {
    layers_.push_back(layer_buffers(layer_label(l, ""), microbatch));
  }
}

void DecoderStage::add_head_buffers() {
  const BufferScope microbatch = BufferScope::Microbatch;
  const std::int64_t statistics = model_.normalization == Normalization::LayerNorm ? 2 : 1;
  HeadBuffers head;
  head.norm = activation("head.norm", {own_rows_, model_.hidden}, microbatch);
  head.norm_statistics = buffer("head.norm.statistics", DType::Float32, {own_rows_, statistics},
                                BufferKind::Statistics, microbatch);
  head.logits =
      buffer("logits", job_.precision, {rows_, vocab_rows_}, BufferKind::Logits, microbatch);
  head.statistics = buffer("cross_entropy.statistics", DType::Float32, {rows_, 3},
                           BufferKind::Statistics, BufferScope::Call);
  head.all_statistics = head.statistics;
  if (slots_.tensor) {
    head.all_statistics =
        buffer("cross_entropy.all_statistics", DType::Float32, {slice_.tensor_ways, rows_, 3},
               BufferKind::Communication, BufferScope::Call);
  }
  head_ = head;
}

void DecoderStage::add_scratch_buffers() {
  const auto make = [&](const char* name, std::int64_t width) {
    return buffer(name, job_.precision, {rows_, width}, BufferKind::Workspace, BufferScope::Call);
  };
  projected_ = make("projected", model_.hidden);
  dnorm_ = make("gradient.norm", model_.hidden);
  dactivated_ = make("gradient.activated", ffn_);
  dattention_ = make("gradient.attention", attention_width_);
  if (plan_.sequence_parallel) {
    const auto gathered = [&](const char* name) {
      return buffer(name, job_.precision, {rows_, model_.hidden}, BufferKind::Communication,
                    BufferScope::Run);
    };
    gathered_ = gathered("gathered");
    gathered_again_ = gathered("gathered again");
  }
  if (splits_) {
    add_gradient_buffers();
    return;
  }
  const BufferId dx = buffer("gradient", job_.precision, {own_rows_, model_.hidden},
                             BufferKind::Workspace, BufferScope::Call);
  const BufferId dup = make("gradient.up", up_width_);
  gradients_of_.assign(static_cast<std::size_t>(slice_.layers()),
                       {dx, dx, dx, dup, make("gradient.qkv", qkv_width_)});
}

/// Weight gradients of a later pass read the gradient of every product's output.
void DecoderStage::add_gradient_buffers() {
  const auto make = [&](const std::string& name, std::int64_t width) {
    return activation(name, {rows_, width}, BufferScope::Microbatch);
  };
  const auto make_own = [&](const std::string& name) {
    return activation(name, {own_rows_, model_.hidden}, BufferScope::Microbatch);
  };
  for (int chunk = 0; chunk < chunk_count(); ++chunk) {
    BufferId input = make_own(block_name("gradient", chunk));
    for (int l = first_layer(chunk); l < first_layer(chunk + 1); ++l) {
      LayerGradients g;
      g.input = input;
      g.middle = make_own(layer_label(l, "gradient.middle"));
      g.output = input = make_own(layer_label(l, "gradient.output"));
      g.up = make(layer_label(l, "gradient.up"), up_width_);
      g.qkv = make(layer_label(l, "gradient.qkv"), qkv_width_);
      gradients_of_.push_back(g);
    }
  }
}

// ---- small parts ---------------------------------------------------------------------------

View DecoderStage::value(ParameterRange range) const {
  return {values_, range.first, range.count, std::nullopt};
}
View DecoderStage::gradient(ParameterRange range) const {
  return {gradients_, range.first, range.count, std::nullopt};
}

std::string DecoderStage::layer_label(int layer, const char* part) const {
  return "layers." + std::to_string(slice_.model_layer(layer)) + "." + part;
}

std::string DecoderStage::block_name(const char* pass, int chunk) const {
  return chunk_count() == 1 ? pass : fmt::format("{} {}", pass, chunk);
}

int DecoderStage::first_layer(int chunk) const {
  int layer = 0;
  for (int c = 0; c < chunk; ++c) layer += slice_.chunks[static_cast<std::size_t>(c)].count;
  return layer;
}

void DecoderStage::normalize(BlockBuilder& block, const std::string& label, BufferId x, BufferId y,
                             BufferId statistics, ParameterRange weight,
                             std::optional<ParameterRange> bias) const {
  std::vector<View> reads = {all(x), value(weight)};
  if (bias) reads.push_back(value(*bias));
  block.compute(label,
                Normalize{own_rows_, model_.hidden, model_.normalization, model_.norm_epsilon},
                reads, {all(y), all(statistics)});
}

void DecoderStage::normalize_grad(BlockBuilder& block, const std::string& label,
                                  const NormGradBuffers& b, ParameterRange weight,
                                  std::optional<ParameterRange> bias) const {
  const bool in_place = b.residual && *b.residual == b.dx;
  std::vector<View> writes = {all(b.dx), gradient(weight)};
  if (bias) writes.push_back(gradient(*bias));
  block.compute(label, NormalizeGrad{own_rows_, model_.hidden, model_.normalization, in_place},
                {b.dy, all(b.x), value(weight), all(b.statistics)}, writes);
  if (!b.residual || in_place) return;
  block.compute(label + ".residual", Add{own_rows_, model_.hidden, false},
                {all(b.dx), all(*b.residual)}, {all(b.dx)});
}

void DecoderStage::linear(BlockBuilder& block, const std::string& label, BufferId x, BufferId y,
                          std::int64_t out, std::int64_t in, ParameterRange weight,
                          std::optional<ParameterRange> bias) const {
  std::vector<View> reads = {all(x), value(weight)};
  if (bias) reads.push_back(value(*bias));
  block.compute(label, Linear{rows_, out, in, bias.has_value()}, reads, {all(y)});
}

void DecoderStage::linear_input_grad(BlockBuilder& block, const std::string& label, BufferId dy,
                                     BufferId dx, std::int64_t out, std::int64_t in,
                                     ParameterRange weight) const {
  block.compute(label, LinearInputGrad{rows_, out, in, false}, {all(dy), value(weight)}, {all(dx)});
}

void DecoderStage::linear_weight_grad(BlockBuilder& block, const std::string& label, BufferId dy,
                                      BufferId x, std::int64_t out, std::int64_t in,
                                      ParameterRange weight,
                                      std::optional<ParameterRange> bias) const {
  std::vector<View> writes = {gradient(weight)};
  if (bias) writes.push_back(gradient(*bias));
  block.set_pass(Pass::WeightGrad);
  block.compute(label, LinearWeightGrad{rows_, out, in, bias.has_value()}, {all(dy), all(x)},
                writes);
  block.set_pass(Pass::Backward);
}

View DecoderStage::reduce_tensor(BlockBuilder& block, const std::string& label, BufferId id) const {
  View sum = all(id);
  if (!slots_.tensor) return sum;
  if (!plan_.sequence_parallel) {
    block.collective(label, CollectiveKind::AllReduce, *slots_.tensor, sum, Stream::Tensor);
    return sum;
  }
  block.collective(label, CollectiveKind::ReduceScatter, *slots_.tensor, sum, Stream::Tensor);
  sum.slice = slots_.tensor;
  return sum;
}

BufferId DecoderStage::all_rows(BlockBuilder& block, const std::string& label, BufferId rows,
                                std::optional<BufferId> into) const {
  if (!into) return rows;
  block.gather(label, *slots_.tensor, all(rows), all(*into), Stream::Tensor);
  return *into;
}

// ---- forward -------------------------------------------------------------------------------

Block DecoderStage::forward(int chunk) const {
  BlockBuilder block(role_, block_name("forward", chunk), dtype_bytes(job_.precision));
  const int begin = first_layer(chunk);
  const int end = first_layer(chunk + 1);
  const BufferId input = x_[static_cast<std::size_t>(begin)];
  if (starts_model(chunk) || ends_model(chunk)) {
    block.set_pass(Pass::Load);
    block.compute("tokens", LoadTokens{plan_.microbatch, job_.sequence}, {},
                  {all(*tokens_), all(*targets_)}, Stream::Host);
  }
  block.set_pass(Pass::Forward);
  if (starts_model(chunk)) {
    std::vector<View> reads = {all(*tokens_), value(*parameters_.token_embedding)};
    const bool positions = parameters_.position_embedding.has_value();
    if (positions) reads.push_back(value(*parameters_.position_embedding));
    block.compute("embedding",
                  Embed{rows_, job_.sequence, model_.hidden, vocab_rows_, slice_.tensor_ways,
                        positions, false},
                  reads, {all(plan_.sequence_parallel ? projected_ : input)});
    if (plan_.sequence_parallel) {
      block.scatter("embedding", *slots_.tensor, all(projected_), all(input), Stream::Tensor);
    } else {
      reduce_tensor(block, "embedding", input);
    }
  } else {
    block.receive("activation", *slots_.previous, Channel::Activation, input);
  }
  for (int l = begin; l < end; ++l) {
    forward_attention(block, l);
    forward_feed_forward(block, l);
  }
  if (ends_model(chunk)) {
    forward_head(block);
  } else {
    block.send("activation", *slots_.next, Channel::Activation,
               y_[static_cast<std::size_t>(end - 1)]);
  }
  return block.take();
}

void DecoderStage::forward_attention(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  normalize(block, layer_label(layer, "norm1"), x_[l], b.norm1, b.norm1_statistics, p.norm1_weight,
            p.norm1_bias);
  const BufferId input = all_rows(block, layer_label(layer, "qkv"), b.norm1, gathered_);
  linear(block, layer_label(layer, "qkv"), input, b.qkv, qkv_width_, model_.hidden, p.qkv_weight,
         p.qkv_bias);
  const int heads = static_cast<int>(heads_);
  const int kv_heads = static_cast<int>(kv_heads_);
  if (model_.position == PositionKind::Rotary) {
    block.compute(layer_label(layer, "rotary"),
                  Rotate{plan_.microbatch, job_.sequence, heads, kv_heads, model_.head_dim,
                         model_.rope_theta, false},
                  {all(b.qkv)}, {all(b.qkv)});
  }
  block.compute(
      layer_label(layer, "attention"),
      Attention{plan_.microbatch, job_.sequence, heads, kv_heads, model_.head_dim, model_.causal},
      {all(b.qkv)}, {all(b.attention), all(b.log_sum_exp)});
  linear(block, layer_label(layer, "out"), b.attention, projected_, model_.hidden, attention_width_,
         p.out_weight, std::nullopt);
  const View projected = reduce_tensor(block, layer_label(layer, "out"), projected_);
  std::vector<View> reads = {all(x_[l]), projected};
  if (p.out_bias) reads.push_back(value(*p.out_bias));
  block.compute(layer_label(layer, "residual1"),
                Add{own_rows_, model_.hidden, p.out_bias.has_value()}, reads, {all(b.middle)});
}

void DecoderStage::forward_feed_forward(BlockBuilder& block, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const LayerBuffers& b = layers_[l];
  const LayerParameters& p = parameters_.layers[l];
  normalize(block, layer_label(layer, "norm2"), b.middle, b.norm2, b.norm2_statistics,
            p.norm2_weight, p.norm2_bias);
  const BufferId input = all_rows(block, layer_label(layer, "up"), b.norm2, gathered_);
  linear(block, layer_label(layer, "up"), input, b.up, up_width_, model_.hidden, p.up_weight,
         p.up_bias);
  block.compute(layer_label(layer, "activation"), Activate{rows_, ffn_, model_.activation},
                {all(b.up)}, {all(b.activated)});
  linear(block, layer_label(layer, "down"), b.activated, projected_, model_.hidden, ffn_,
         p.down_weight, std::nullopt);
  const View projected = reduce_tensor(block, layer_label(layer, "down"), projected_);
  std::vector<View> reads = {all(b.middle), projected};
  if (p.down_bias) reads.push_back(value(*p.down_bias));
  block.compute(layer_label(layer, "residual2"),
                Add{own_rows_, model_.hidden, p.down_bias.has_value()}, reads, {all(y_[l])});
}

void DecoderStage::forward_head(BlockBuilder& block) const {
  normalize(block, "head.norm", y_.back(), head_->norm, head_->norm_statistics,
            *parameters_.final_norm_weight, parameters_.final_norm_bias);
  const BufferId input = all_rows(block, "head.logits", head_->norm, gathered_);
  linear(block, "head.logits", input, head_->logits, vocab_rows_, model_.hidden,
         *parameters_.output_weight, std::nullopt);
  block.compute("loss",
                CrossEntropyStatistics{rows_, vocab_rows_, model_.vocab, slice_.tensor_ways},
                {all(head_->logits), all(*targets_)}, {all(head_->statistics)});
  if (slots_.tensor) {
    block.gather("loss", *slots_.tensor, all(head_->statistics), all(head_->all_statistics),
                 Stream::Tensor);
  }
  const double targets = static_cast<double>(job_.global_batch) * job_.sequence;
  block.compute(
      "loss", CrossEntropyGrad{rows_, vocab_rows_, model_.vocab, slice_.tensor_ways, 1.0 / targets},
      {all(head_->all_statistics), all(*targets_), all(head_->logits)},
      {all(head_->logits), all(loss_)});
}

}  // namespace orrery::core

// The buffers of a decoder's stage: decoder_stage.h.

#include <fmt/format.h>

#include "core/lowering/decoder_stage.h"

namespace orrery::core {

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
  values_ = run("parameters", job_.precision, plan_.sharding_stage == 3 ? shard : count,
                BufferKind::Parameters);
  gradients_ = run("gradients", DType::Float32, gradient_elements(buckets_, slice_.sharding_ways),
                   BufferKind::Gradients);
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
  role_.sharding_group = slots_.sharding;
  role_.context_group = slots_.context;
  role_.parameters = parameters_.parameters;
  role_.parameters.values = values_;
  for (const GradientBucket& bucket : buckets_) {
    const bool sharded = plan_.sharding_stage == 3;
    if (sharded) role_.parameters.sharded.push_back(bucket.parameters);
    role_.parameters.buckets.push_back({bucket.parameters.first, bucket.gradients_first,
                                        sharded ? bucket.slice_first : bucket.parameters.first});
  }
  role_.parameters.gradients = gradients_;
  role_.parameters.optimizer_state = state_;
}

BufferId DecoderStage::inside_buffer(const std::string& prefix, BufferScope scope) const {
  const std::int64_t sequence = attention_sequence_;
  const std::int64_t heads = attention_heads_;
  if (plan_.attention == AttentionKind::Flash) {
    return buffer(prefix + "attention.log_sum_exp", DType::Float32,
                  {plan_.microbatch, heads, sequence}, BufferKind::Statistics, scope);
  }
  return activation(prefix + "attention.softmax", {plan_.microbatch, heads, sequence, sequence},
                    scope);
}

DecoderStage::LayerBuffers DecoderStage::layer_buffers(const std::string& prefix, BufferScope scope,
                                                       BufferId inside) const {
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
  b.attended = exchanges_ ? make("attention.heads", attention_width_) : b.attention;
  b.inside = inside;
  b.middle = make_own("middle");
  b.norm2 = make_own("norm2");
  b.norm2_statistics = make_statistics("norm2.statistics", own_rows_, statistics);
  b.up = make("up", up_width_);
  b.activated = make("activated", ffn_);
  return b;
}

void DecoderStage::add_activation_buffers() {
  const BufferScope microbatch = BufferScope::Microbatch;
  const std::vector<std::int64_t> token_shape = {plan_.microbatch, sequence_};
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
  // Layers that recompute take turns with one set of buffers.
  std::optional<BufferId> inside;
  std::optional<LayerBuffers> shared;
  if (plan_.recompute != Recompute::None) inside = inside_buffer("layer.", BufferScope::Call);
  if (plan_.recompute == Recompute::Full) {
    shared = layer_buffers("layer.", BufferScope::Call, *inside);
  }
  for (int l = 0; l < slice_.layers(); ++l) {
    if (recomputes(l, Recompute::Full)) {
      layers_.push_back(*shared);
      continue;
    }
    const std::string prefix = layer_label(l, "");
    const bool again = recomputes(l, Recompute::Selective);
    layers_.push_back(
        layer_buffers(prefix, microbatch, again ? *inside : inside_buffer(prefix, microbatch)));
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
  if (rings_) {
    const auto go_round = [&](const char* name) {
      return buffer(name, job_.precision, {rows_, 2 * kv_heads_ * model_.head_dim},
                    BufferKind::Communication, BufferScope::Run);
    };
    kv_ = {go_round("keys and values"), go_round("next keys and values")};
    dkv_ = {go_round("gradient of keys and values"), go_round("next gradient of keys and values")};
  }
  if (exchanges_) {
    qkv_rows_ = make("qkv.rows", qkv_width_);
    sent_ = make("heads sent", qkv_width_);
    received_ = make("heads received", qkv_width_);
    dattended_ = make("gradient.attention.heads", attention_width_);
    dqkv_heads_ = make("gradient.qkv.heads", qkv_width_);
  }
  if (plan_.attention == AttentionKind::Plain) {
    dscores_ =
        buffer("gradient.scores", job_.precision,
               {plan_.microbatch, attention_heads_, attention_sequence_, attention_sequence_},
               BufferKind::Workspace, BufferScope::Call);
  }
  if (plan_.sequence_parallel) {
    const auto gathered = [&](const char* name) {
      return buffer(name, job_.precision, {rows_, model_.hidden}, BufferKind::Communication,
                    BufferScope::Run);
    };
    gathered_ = gathered("gathered");
    gathered_again_ = gathered("gathered again");
  }
  if (plan_.sharding_stage >= 2) add_sharding_buffers();
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

}  // namespace orrery::core

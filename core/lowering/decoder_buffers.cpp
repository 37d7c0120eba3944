#include "core/lowering/decoder_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "core/lowering/block_builder.h"

namespace orrery::core {
namespace {

class BufferWriter {
 public:
  BufferWriter(const StageShape& shape, Role& role) : shape_(shape), role_(role) {}

  StageBuffers write() {
    add_run_buffers();
    add_activation_buffers();
    if (shape_.slice.last) add_head_buffers();
    add_scratch_buffers();
    return std::move(buffers_);
  }

 private:
  BufferId buffer(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                  BufferKind kind, BufferScope scope) const {
    return add_buffer(role_, {name, dtype, std::move(shape), kind, scope});
  }

  BufferId activation(const std::string& name, std::vector<std::int64_t> shape,
                      BufferScope scope) const {
    return buffer(name, shape_.job.precision, std::move(shape), BufferKind::Activations, scope);
  }

  BufferId inside_buffer(const std::string& prefix, BufferScope scope) const {
    const std::int64_t sequence = shape_.attention_sequence;
    const std::int64_t heads = shape_.attention_heads;
    if (shape_.plan.attention == AttentionKind::Flash) {
      return buffer(prefix + "attention.log_sum_exp", DType::Float32,
                    {shape_.plan.microbatch, heads, sequence}, BufferKind::Statistics, scope);
    }
    return activation(prefix + "attention.softmax",
                      {shape_.plan.microbatch, heads, sequence, sequence}, scope);
  }

  LayerBuffers layer_buffers(const std::string& prefix, BufferScope scope, BufferId inside) const {
    const std::int64_t statistics = shape_.model.normalization == Normalization::LayerNorm ? 2 : 1;
    const auto make = [&](const char* name, std::int64_t width) {
      return activation(prefix + name, {shape_.rows, width}, scope);
    };
    const auto make_own = [&](const char* name) {
      return activation(prefix + name, {shape_.own_rows, shape_.model.hidden}, scope);
    };
    const auto make_statistics = [&](const char* name, std::int64_t rows, std::int64_t width) {
      return buffer(prefix + name, DType::Float32, {rows, width}, BufferKind::Statistics, scope);
    };
    LayerBuffers b;
    b.norm1 = make_own("norm1");
    b.norm1_statistics = make_statistics("norm1.statistics", shape_.own_rows, statistics);
    b.qkv = make("qkv", shape_.qkv_width);
    b.attention = make("attention", shape_.attention_width);
    b.attended = shape_.exchanges ? make("attention.heads", shape_.attention_width) : b.attention;
    b.inside = inside;
    b.middle = make_own("middle");
    b.norm2 = make_own("norm2");
    b.norm2_statistics = make_statistics("norm2.statistics", shape_.own_rows, statistics);
    b.up = activation(prefix + "up", {shape_.ffn_rows, shape_.up_width}, scope);
    b.activated = activation(prefix + "activated", {shape_.ffn_rows, shape_.ffn}, scope);
    if (shape_.has_experts()) b.experts = expert_buffers(prefix, scope);
    return b;
  }

  ExpertBuffers expert_buffers(const std::string& prefix, BufferScope scope) const {
    const auto chosen = [&](const char* name, DType dtype) {
      return buffer(prefix + name, dtype, {shape_.own_rows, shape_.model.experts_per_token},
                    BufferKind::Statistics, scope);
    };
    const auto rows = [&](const char* name, std::int64_t count) {
      return activation(prefix + name, {count, shape_.model.hidden}, scope);
    };
    ExpertBuffers b;
    b.weights = chosen("router.weights", DType::Float32);
    b.places = chosen("router.places", DType::Int32);
    b.input = rows("experts.input", shape_.ffn_rows);
    b.returned = rows("experts.returned", shape_.expert_slots());
    return b;
  }

  void add_run_buffers() {
    const std::int64_t count = shape_.parameters.parameters.elements;
    const std::int64_t shard = slice_elements(shape_.buckets);
    const auto run = [&](const char* name, DType dtype, std::int64_t n, BufferKind kind) {
      return buffer(name, dtype, {n}, kind, BufferScope::Run);
    };
    buffers_.values = run("parameters", shape_.job.precision,
                          shape_.plan.sharding_stage == 3 ? shard : count, BufferKind::Parameters);
    buffers_.gradients = run("gradients", shape_.job.gradient_precision,
                             gradient_elements(shape_.buckets), BufferKind::Gradients);
    if (dtype_bytes(shape_.job.precision) < dtype_bytes(DType::Float32)) {
      buffers_.state.push_back(
          run("master parameters", DType::Float32, shard, BufferKind::OptimizerState));
    }
    const bool moments = shape_.job.optimizer.kind == OptimizerKind::AdamW ||
                         shape_.job.optimizer.kind == OptimizerKind::Adam;
    if (moments) {
      buffers_.state.push_back(
          run("first moment", DType::Float32, shard, BufferKind::OptimizerState));
      buffers_.state.push_back(
          run("second moment", DType::Float32, shard, BufferKind::OptimizerState));
    } else if (shape_.job.optimizer.kind == OptimizerKind::AdaGrad) {
      buffers_.state.push_back(
          run("squared gradients", DType::Float32, shard, BufferKind::OptimizerState));
    }
    buffers_.loss = run("loss", DType::Float32, 1, BufferKind::Statistics);
    buffers_.norm_sum = run("squared gradient norm", DType::Float32, 1, BufferKind::Statistics);
    buffers_.norm = run("gradient norm", DType::Float32, 2, BufferKind::Statistics);
    role_.loss = buffers_.loss;
    role_.norm = buffers_.norm;
    role_.tensor_group = shape_.slots.tensor;
    role_.expert_group = shape_.slots.expert;
    role_.context_group = shape_.slots.context;
    role_.parameters = shape_.parameters.parameters;
    role_.parameters.values = buffers_.values;
    for (const GradientBucket& bucket : shape_.buckets) {
      const bool sharded = shape_.plan.sharding_stage == 3;
      if (sharded) {
        role_.parameters.sharded.push_back({bucket.parameters, shape_.sharding_of(bucket)});
      }
      role_.parameters.buckets.push_back({bucket.parameters.first, bucket.gradients_first,
                                          sharded ? bucket.slice_first : bucket.parameters.first});
    }
    role_.parameters.gradients = buffers_.gradients;
    role_.parameters.optimizer_state = buffers_.state;
  }

  void add_activation_buffers() {
    const BufferScope microbatch = BufferScope::Microbatch;
    const std::vector<std::int64_t> token_shape = {shape_.plan.microbatch, shape_.sequence};
    if (shape_.slice.first || shape_.slice.last) {
      buffers_.tokens = buffer("tokens", DType::Int32, token_shape, BufferKind::Input, microbatch);
      buffers_.targets =
          buffer("targets", DType::Int32, token_shape, BufferKind::Input, microbatch);
    }
    const auto input_of = [&](int model_layer) {
      return activation(fmt::format("layers.{}.input", model_layer),
                        {shape_.own_rows, shape_.model.hidden}, microbatch);
    };
    for (const LayerRange& chunk : shape_.slice.chunks) {
      BufferId next = input_of(chunk.first);
      for (int l = 0; l < chunk.count; ++l) {
        buffers_.x.push_back(next);
        buffers_.y.push_back(next = input_of(chunk.first + l + 1));
      }
    }
    // Layers that recompute take turns with one set of buffers_.
    std::optional<BufferId> inside;
    std::optional<LayerBuffers> shared;
    if (shape_.plan.recompute != Recompute::None) {
      inside = inside_buffer("layer.", BufferScope::Call);
    }
    if (shape_.plan.recompute == Recompute::Full) {
      shared = layer_buffers("layer.", BufferScope::Call, *inside);
    }
    for (int l = 0; l < shape_.slice.layers(); ++l) {
      if (shape_.recomputes(l, Recompute::Full)) {
        buffers_.layers.push_back(*shared);
        continue;
      }
      const std::string prefix = shape_.layer_label(l, "");
      const bool again = shape_.recomputes(l, Recompute::Selective);
      buffers_.layers.push_back(
          layer_buffers(prefix, microbatch, again ? *inside : inside_buffer(prefix, microbatch)));
    }
  }

  void add_head_buffers() {
    const BufferScope microbatch = BufferScope::Microbatch;
    const std::int64_t statistics = shape_.model.normalization == Normalization::LayerNorm ? 2 : 1;
    HeadBuffers head;
    head.norm = activation("head.norm", {shape_.own_rows, shape_.model.hidden}, microbatch);
    head.norm_statistics =
        buffer("head.norm.statistics", DType::Float32, {shape_.own_rows, statistics},
               BufferKind::Statistics, microbatch);
    head.logits = buffer("logits", shape_.job.precision, {shape_.rows, shape_.vocab_rows},
                         BufferKind::Logits, microbatch);
    head.statistics = buffer("cross_entropy.statistics", DType::Float32, {shape_.rows, 3},
                             BufferKind::Statistics, BufferScope::Call);
    head.all_statistics = head.statistics;
    if (shape_.slots.tensor) {
      head.all_statistics = buffer("cross_entropy.all_statistics", DType::Float32,
                                   {shape_.slice.tensor_ways, shape_.rows, 3},
                                   BufferKind::Communication, BufferScope::Call);
    }
    buffers_.head = head;
  }

  void add_scratch_buffers() {
    const auto make = [&](const char* name, std::int64_t width) {
      return buffer(name, shape_.job.precision, {shape_.rows, width}, BufferKind::Workspace,
                    BufferScope::Call);
    };
    buffers_.projected = make("projected", shape_.model.hidden);
    buffers_.dnorm = make("gradient.norm", shape_.model.hidden);
    buffers_.dactivated =
        buffer("gradient.activated", shape_.job.precision, {shape_.ffn_rows, shape_.ffn},
               BufferKind::Workspace, BufferScope::Call);
    if (shape_.has_experts()) add_expert_buffers();
    buffers_.dattention = make("gradient.attention", shape_.attention_width);
    if (shape_.rings) {
      const auto go_round = [&](const char* name) {
        return buffer(name, shape_.job.precision,
                      {shape_.rows, 2 * shape_.kv_heads * shape_.model.head_dim},
                      BufferKind::Communication, BufferScope::Run);
      };
      buffers_.kv = {go_round("keys and values"), go_round("next keys and values")};
      buffers_.dkv = {go_round("gradient of keys and values"),
                      go_round("next gradient of keys and values")};
    }
    if (shape_.exchanges) {
      buffers_.qkv_rows = make("qkv.rows", shape_.qkv_width);
      buffers_.sent = make("heads sent", shape_.qkv_width);
      buffers_.received = make("heads received", shape_.qkv_width);
      buffers_.dattended = make("gradient.attention.heads", shape_.attention_width);
      buffers_.dqkv_heads = make("gradient.qkv.heads", shape_.qkv_width);
    }
    if (shape_.plan.attention == AttentionKind::Plain) {
      buffers_.dscores = buffer("gradient.scores", shape_.job.precision,
                                {shape_.plan.microbatch, shape_.attention_heads,
                                 shape_.attention_sequence, shape_.attention_sequence},
                                BufferKind::Workspace, BufferScope::Call);
    }
    if (shape_.plan.sequence_parallel) {
      const auto gathered = [&](const char* name) {
        return buffer(name, shape_.job.precision, {shape_.rows, shape_.model.hidden},
                      BufferKind::Communication, BufferScope::Run);
      };
      buffers_.gathered = gathered("gathered");
      buffers_.gathered_again = gathered("gathered again");
    }
    if (shape_.plan.sharding_stage >= 2) add_sharding_buffers();
    if (shape_.splits) {
      add_gradient_buffers();
      return;
    }
    const BufferId dx =
        buffer("gradient", shape_.job.precision, {shape_.own_rows, shape_.model.hidden},
               BufferKind::Workspace, BufferScope::Call);
    LayerGradients g{dx, dx, dx, {}, make("gradient.qkv", shape_.qkv_width), {}, {}};
    g.up = scratch("gradient.up", shape_.ffn_rows, shape_.up_width);
    if (shape_.has_experts()) {
      g.expert_output = scratch("gradient.experts.output", shape_.ffn_rows, shape_.model.hidden);
      g.router = scratch("gradient.router", shape_.own_rows, shape_.model.experts);
    }
    buffers_.gradients_of.assign(static_cast<std::size_t>(shape_.slice.layers()), g);
  }

  BufferId scratch(const char* name, std::int64_t rows, std::int64_t width) const {
    return buffer(name, shape_.job.precision, {rows, width}, BufferKind::Workspace,
                  BufferScope::Call);
  }

  void add_expert_buffers() {
    const std::int64_t hidden = shape_.model.hidden;
    const std::int64_t slots = shape_.expert_slots();
    ExpertScratch e;
    e.logits = scratch("router.logits", shape_.own_rows, shape_.model.experts);
    e.output = scratch("experts.output", shape_.ffn_rows, hidden);
    e.dinput = scratch("gradient.experts.input", shape_.ffn_rows, hidden);
    e.dslots = scratch("gradient.slots", slots, hidden);
    e.dweights = buffer("gradient.router.weights", DType::Float32,
                        {shape_.own_rows, shape_.model.experts_per_token}, BufferKind::Workspace,
                        BufferScope::Call);
    if (shape_.expert_parts > 1) e.sent = scratch("slots sent", slots, hidden);
    if (shape_.slots.expert) e.received = scratch("slots received", slots, hidden);
    if (shape_.gathers_for_experts()) {
      e.gathered = scratch("slots gathered", shape_.ffn_rows, hidden);
    }
    buffers_.expert = e;
  }

  /// Weight gradients of a later pass read the gradient of every product's output.
  void add_gradient_buffers() {
    const auto make = [&](const std::string& name, std::int64_t width) {
      return activation(name, {shape_.rows, width}, BufferScope::Microbatch);
    };
    const auto make_own = [&](const std::string& name) {
      return activation(name, {shape_.own_rows, shape_.model.hidden}, BufferScope::Microbatch);
    };
    for (int chunk = 0; chunk < shape_.chunk_count(); ++chunk) {
      BufferId input = make_own(shape_.block_name("gradient", chunk));
      for (int l = shape_.first_layer(chunk); l < shape_.first_layer(chunk + 1); ++l) {
        LayerGradients g;
        g.input = input;
        g.middle = make_own(shape_.layer_label(l, "gradient.middle"));
        g.output = input = make_own(shape_.layer_label(l, "gradient.output"));
        g.up = activation(shape_.layer_label(l, "gradient.up"), {shape_.ffn_rows, shape_.up_width},
                          BufferScope::Microbatch);
        if (shape_.has_experts()) {
          g.expert_output =
              activation(shape_.layer_label(l, "gradient.experts.output"),
                         {shape_.ffn_rows, shape_.model.hidden}, BufferScope::Microbatch);
          g.router = activation(shape_.layer_label(l, "gradient.router"),
                                {shape_.own_rows, shape_.model.experts}, BufferScope::Microbatch);
        }
        g.qkv = make(shape_.layer_label(l, "gradient.qkv"), shape_.qkv_width);
        buffers_.gradients_of.push_back(g);
      }
    }
  }

  /// Full gradients and gathered parameters live in buffers of their own throughout the step, which
  /// layers take in turns of two: while one is computed, the next is gathered or the last reduced.
  void add_sharding_buffers() {
    std::array<std::int64_t, 2> largest = {};  // Of layers, and of experts.
    for (const GradientBucket& bucket : shape_.buckets) {
      std::int64_t& size = largest[bucket.experts ? 1 : 0];
      if (bucket.layers > 0) size = std::max(size, bucket.parameters.count);
    }
    const auto make = [&](const std::string& name, DType dtype, std::int64_t count) {
      return buffer(name, dtype, {count}, BufferKind::Communication, BufferScope::Run);
    };
    const auto add = [&](const std::string& name, DType dtype,
                         std::vector<std::optional<BufferId>>& by_bucket, bool of_whole) {
      std::array<std::vector<BufferId>, 2> all_turns;
      std::array<std::size_t, 2> turn = {};
      for (const GradientBucket& bucket : shape_.buckets) {
        const std::size_t kind = bucket.experts ? 1 : 0;
        std::vector<BufferId>& turns = all_turns[kind];
        if (bucket.ways == 1 || (bucket.whole && !of_whole)) {
          by_bucket.push_back(std::nullopt);
        } else if (bucket.layers > 0) {
          if (turns.size() < 2) {
            turns.push_back(make(name + (turns.empty() ? " of even" : " of odd") +
                                     (bucket.experts ? " buckets of experts" : " buckets"),
                                 dtype, largest[kind]));
          }
          by_bucket.push_back(turns[turn[kind]++ % 2]);
        } else {
          const char* part = bucket.embedding ? " of the embedding" : " of the head";
          by_bucket.push_back(make(name + part, dtype, bucket.parameters.count));
        }
      }
    };
    if (shape_.plan.sharding_stage >= 2) {
      add("full gradients", shape_.job.gradient_precision, buffers_.full_gradients, false);
    }
    if (shape_.plan.sharding_stage == 3) {
      add("gathered parameters", shape_.job.precision, buffers_.gathered_parameters, true);
    }
  }

  const StageShape& shape_;
  Role& role_;
  StageBuffers buffers_;
};

}  // namespace

StageBuffers add_stage_buffers(const StageShape& shape, Role& role) {
  return BufferWriter(shape, role).write();
}

}  // namespace orrery::core

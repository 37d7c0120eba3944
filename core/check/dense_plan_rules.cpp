// Rules of the collective part: core/check/plan_rules.h.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/check/plan_rules.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {

namespace {

/// "1, 2, 4 or 8": the divisors common to `numbers`, as a fix to offer.
std::string common_divisors(const std::vector<int>& numbers) {
  const int all = std::accumulate(numbers.begin(), numbers.end(), 0,
                                  [](int a, int b) { return std::gcd(a, b); });
  std::vector<int> divisors;
  for (int d = 1; d <= all; ++d) {
    if (all % d == 0) divisors.push_back(d);
  }
  if (divisors.size() == 1) return "1";
  const int last = divisors.back();
  divisors.pop_back();
  return fmt::format("{} or {}", fmt::join(divisors, ", "), last);
}

Reason degrees_below_one(const DensePlan& d) {
  const std::pair<const char*, int> degrees[] = {{"data", d.data},
                                                 {"sharding", d.sharding},
                                                 {"tensor", d.tensor},
                                                 {"pipeline", d.pipeline},
                                                 {"context", d.context},
                                                 {"expert", d.expert},
                                                 {"expert_tensor", d.expert_tensor},
                                                 {"microbatch", d.microbatch},
                                                 {"virtual_stages", d.virtual_stages}};
  for (const auto& [key, value] : degrees) {
    if (value < 1) return fmt::format("dense.{} = {}: must be at least 1", key, value);
  }
  return {};
}

Reason sharding_mismatch(const DensePlan& d) {
  if (d.sharding_stage < 0 || d.sharding_stage > 3) {
    return fmt::format("dense.sharding_stage = {}: must be 0, 1, 2 or 3", d.sharding_stage);
  }
  if (d.sharding > 1 && d.sharding_stage == 0) {
    return fmt::format("dense.sharding = {} needs a dense.sharding_stage; use 1", d.sharding);
  }
  if (d.sharding * d.expert == 1 && d.sharding_stage > 0) {
    return fmt::format(
        "dense.sharding_stage = {} has no effect with dense.sharding = 1; use 0, or a larger "
        "dense.sharding",
        d.sharding_stage);
  }
  return {};
}

Reason reduction_mismatch(const DensePlan& d) {
  if (d.bucket && !(d.bucket->value > 0)) {
    return "dense.bucket: must be above 0; leave it out for one reduction per layer";
  }
  if (!d.overlap_gradients && d.bucket) {
    return "dense.bucket has no effect with dense.overlap_gradients = false, which reduces all "
           "gradients at once; leave one of them out";
  }
  if (!d.overlap_gradients && d.sharding_stage > 1) {
    return fmt::format(
        "dense.overlap_gradients = false: dense.sharding_stage = {} reduces gradients within each "
        "backward pass; use true, or stage 1",
        d.sharding_stage);
  }
  if (splits_backward(d.schedule) && d.sharding_stage > 1) {
    return fmt::format(
        "dense.sharding_stage = {} with dense.schedule = \"{}\": a bucket's full gradients would "
        "live "
        "from its input gradients to its weight gradients; use stage 1, or \"1f1b\"",
        d.sharding_stage, schedule_name(d.schedule));
  }
  return {};
}

Reason device_mismatch(const DensePlan& d, int devices) {
  // A double: degrees from a file may overflow any integer.
  const double needed = 1.0 * d.data * d.sharding * d.expert * d.pipeline * d.context * d.tensor;
  if (needed == devices) return {};
  return fmt::format(
      "dense: data {} · sharding {}{} · pipeline {} · context {} · tensor {} = {:.0f} devices, but "
      "the cluster has {}; change a degree so that the product is {}",
      d.data, d.sharding, d.expert > 1 ? fmt::format(" · expert {}", d.expert) : "", d.pipeline,
      d.context, d.tensor, needed, devices, devices);
}

Reason axes_missing(const DensePlan& d) {
  const std::pair<Axis, int> degrees[] = {{Axis::Tensor, d.tensor},     {Axis::Context, d.context},
                                          {Axis::Sharding, d.sharding}, {Axis::Expert, d.expert},
                                          {Axis::Pipeline, d.pipeline}, {Axis::Data, d.data}};
  for (const auto& [axis, degree] : degrees) {
    const auto times = std::count(d.axis_order.begin(), d.axis_order.end(), axis);
    if (times > 1 || (times == 0 && degree > 1)) {
      return fmt::format("dense.axis_order: names \"{}\" {} times; name each axis above 1 once",
                         axis_name(axis), times);
    }
  }
  return {};
}

Reason stages_mismatch(const DensePlan& d, const Transformer& t) {
  const std::int64_t stages = std::int64_t{d.pipeline} * d.virtual_stages;
  const auto entries = static_cast<std::int64_t>(d.layers_per_stage.size());
  const auto example = [&] {
    return stages > 16 ? ""
                       : fmt::format(", e.g. {}", even_layers(t.layers, static_cast<int>(stages)));
  };
  if (stages > t.layers) {
    return fmt::format("dense.pipeline = {}: {} stages for {} layers; use at most {} stages",
                       d.pipeline, stages, t.layers, t.layers);
  }
  if (entries != stages) {
    return fmt::format(
        "dense.layers_per_stage: has {} entries, pipeline · virtual_stages needs {}{}", entries,
        stages, example());
  }
  if (std::any_of(d.layers_per_stage.begin(), d.layers_per_stage.end(),
                  [](int layers) { return layers < 1; })) {
    return fmt::format("dense.layers_per_stage = {}: each stage needs at least 1 layer{}",
                       d.layers_per_stage, example());
  }
  const std::int64_t sum =
      std::accumulate(d.layers_per_stage.begin(), d.layers_per_stage.end(), std::int64_t{0});
  if (sum != t.layers) {
    return fmt::format("dense.layers_per_stage: sums to {}, the model has {} layers{}", sum,
                       t.layers, example());
  }
  return {};
}

Reason tensor_mismatch(const DensePlan& d, const Transformer& t) {
  const bool cuts_ffn = t.experts == 1 || d.expert_tensor > 1;
  const std::pair<const char*, int> parts[] = {{"attention heads", t.heads},
                                               {"key-value heads", t.kv_heads},
                                               {"feed-forward width", cuts_ffn ? t.ffn : d.tensor}};
  for (const auto& [what, count] : parts) {
    if (count % d.tensor == 0) continue;
    return fmt::format("dense.tensor = {}: must divide the model's {} ({}); use {}", d.tensor, what,
                       count, common_divisors({t.heads, t.kv_heads, cuts_ffn ? t.ffn : t.heads}));
  }
  return {};
}

Reason experts_mismatch(const DensePlan& d, const Transformer& t) {
  if (t.experts == 1) {
    if (d.expert == 1 && d.expert_tensor == 1) return {};
    return fmt::format("dense.{} = {}: the model has no experts; use 1",
                       d.expert > 1 ? "expert" : "expert_tensor",
                       d.expert > 1 ? d.expert : d.expert_tensor);
  }
  if (!(d.expert_capacity > 0)) {
    return "dense.expert_capacity: must be above 0; 1 has room for an even share of the rows";
  }
  if (d.expert_tensor != 1 && d.expert_tensor != d.tensor) {
    return fmt::format(
        "dense.expert_tensor = {}: each expert lies on one rank, or on all of a tensor group; use "
        "{}",
        d.expert_tensor, d.tensor > 1 ? fmt::format("1 or {}", d.tensor) : "1");
  }
  if (d.expert_tensor < d.tensor && !d.sequence_parallel) {
    return fmt::format(
        "dense.expert_tensor = 1 with dense.tensor = {}: ranks that hold different experts route "
        "rows "
        "of their own, which needs dense.sequence_parallel = true; or use dense.expert_tensor = {}",
        d.tensor, d.tensor);
  }
  if (t.experts % (std::int64_t{d.expert} * (d.tensor / d.expert_tensor)) != 0) {
    const std::string ranks = d.expert_tensor < d.tensor
                                  ? fmt::format("{} · tensor {} ranks", d.expert, d.tensor)
                                  : fmt::format("{} ranks", d.expert);
    return fmt::format("dense.expert = {}: {} do not divide the model's {} experts; use {}",
                       d.expert, ranks, t.experts, common_divisors({t.experts}));
  }
  return {};
}

Reason context_mismatch(const DensePlan& d, const Transformer& t, const Job& job) {
  if (d.context == 1) return {};
  if (job.sequence % d.context != 0) {
    return fmt::format(
        "dense.context = {}: must divide the job's sequence of {} tokens; use another degree or "
        "sequence",
        d.context, job.sequence);
  }
  if (d.context_method == ContextMethod::Ring) {
    if (job.sequence % (2 * d.context) != 0) {
      return fmt::format(
          "dense.context = {}: a ring cuts the job's sequence of {} tokens into {} pieces; use "
          "another "
          "degree or sequence",
          d.context, job.sequence, 2 * d.context);
    }
    if (d.attention == AttentionKind::Plain) {
      return "dense.attention = \"plain\" with dense.context_method = \"ring\": a rank never has "
             "all "
             "scores; use \"flash\", or \"all-to-all\"";
    }
    if (!t.causal) {
      return "dense.context_method = \"ring\": the model's attention is not causal; use "
             "\"all-to-all\"";
    }
    return {};
  }
  const std::pair<const char*, int> parts[] = {{"attention heads", t.heads},
                                               {"key-value heads", t.kv_heads}};
  for (const auto& [what, count] : parts) {
    if (count / d.tensor % d.context == 0) continue;
    return fmt::format(
        "dense.context = {}: all-to-all deals the {} {} of a tensor rank, which it must divide; "
        "use {}",
        d.context, count / d.tensor, what,
        common_divisors({t.heads / d.tensor, t.kv_heads / d.tensor}));
  }
  return {};
}

Reason recompute_mismatch(const DensePlan& d) {
  if (d.recompute_whole && d.recompute != Recompute::Full) {
    return fmt::format(
        "dense.recompute_whole = true has no effect with dense.recompute = \"{}\"; use false, or "
        "\"full\"",
        recompute_name(d.recompute));
  }
  if (!d.recompute_layers) return {};
  const int n = *d.recompute_layers;
  if (d.recompute == Recompute::None) {
    return fmt::format(
        "dense.recompute_layers = {} has no effect with dense.recompute = \"none\"; leave it out, "
        "or "
        "use \"selective\" or \"full\"",
        n);
  }
  if (d.virtual_stages > 1) {
    return fmt::format(
        "dense.recompute_layers = {} with dense.virtual_stages = {}: is not covered by costs yet; "
        "leave it out for all layers",
        n, d.virtual_stages);
  }
  const int least = *std::min_element(d.layers_per_stage.begin(), d.layers_per_stage.end());
  if (n >= 1 && n < least) return {};
  return fmt::format(
      "dense.recompute_layers = {}: must be at least 1 and below the {} layers of the smallest "
      "stage; "
      "leave it out for all layers",
      n, least);
}

Reason sequence_parallel_mismatch(const DensePlan& d, const Job& job) {
  if (!d.sequence_parallel) return {};
  if (d.tensor == 1) {
    return "dense.sequence_parallel = true has no effect with dense.tensor = 1; use false, or a "
           "larger dense.tensor";
  }
  const int tokens = job.sequence / d.context;
  const std::int64_t rows = std::int64_t{d.microbatch} * tokens;
  if (rows % d.tensor == 0) return {};
  return fmt::format(
      "dense.sequence_parallel = true: a microbatch's {} sequences of {} tokens are {} rows, which "
      "dense.tensor = {} does not divide; use another microbatch or tensor, or false",
      d.microbatch, tokens, rows, d.tensor);
}

Reason batch_mismatch(const DensePlan& d, const Job& job) {
  const std::int64_t per_microbatch = std::int64_t{d.data} * d.sharding * d.expert * d.microbatch;
  if (job.global_batch >= 1 && job.global_batch % per_microbatch == 0) return {};
  return fmt::format(
      "dense.microbatch = {}: the job's global batch of {} is no multiple of data {} · sharding "
      "{}{} "
      "· microbatch {} = {}; change a degree, the microbatch or the global batch",
      d.microbatch, job.global_batch, d.data, d.sharding,
      d.expert > 1 ? fmt::format(" · expert {}", d.expert) : "", d.microbatch, per_microbatch);
}

Reason too_many_passes(const DensePlan& d, const Job& job) {
  const std::int64_t count = microbatches(d, job.global_batch);
  if (count * d.pipeline * d.virtual_stages <= kMostPasses) return {};
  return fmt::format(
      "dense.microbatch = {}: {} microbatches on {} stages are more than the {} passes of a step "
      "that a program can hold; use a larger microbatch, or a smaller global batch",
      d.microbatch, count, std::int64_t{d.pipeline} * d.virtual_stages, kMostPasses);
}

Reason activations_too_large(const DensePlan& d, const Transformer& t, const Job& job) {
  const double width =
      std::max({1.0 * t.hidden, 1.0 * t.ffn, 1.0 * t.vocab, 1.0 * t.heads * t.head_dim});
  const double scores =
      d.attention == AttentionKind::Plain ? 1.0 * t.heads / d.tensor * job.sequence : 0.0;
  const double rows = t.experts > 1 ? std::max(1.0, d.expert_capacity * t.experts_per_token) : 1.0;
  const double elements = 1.0 * d.microbatch * job.sequence * std::max(rows * width, scores);
  if (elements <= kMostElements) return {};
  return fmt::format(
      "dense.microbatch = {}: a microbatch of sequences of {} tokens has activations of {:g} "
      "elements; use at most {:g}",
      d.microbatch, job.sequence, elements, kMostElements);
}

Reason sequence_too_long(const Transformer& t, const Job& job) {
  if (job.sequence < 1) {
    return "the job has no sequence, which a transformer's needs: give `sequence`, the tokens of "
           "each "
           "sample";
  }
  if (t.position == PositionKind::Learned && job.sequence > t.max_positions) {
    return fmt::format(
        "the job's sequence of {} tokens is beyond the model's {} learned positions; use at most "
        "{}",
        job.sequence, t.max_positions, t.max_positions);
  }
  if (t.attention_window && job.sequence > *t.attention_window) {
    return fmt::format(
        "the job's sequence of {} tokens is beyond the model's sliding window of {}, which "
        "lowering "
        "does not cover yet; use at most {}",
        job.sequence, *t.attention_window, *t.attention_window);
  }
  return {};
}

Reason not_covered(const Transformer& t) {
  if (t.experts > 1 && t.linear_bias) {
    return "the model's experts have biases, which lowering does not cover yet; use a model "
           "without";
  }
  if (t.post_norm || t.mlm_head) {
    return "the model is an encoder (normalises after the residual, masked-language head), which "
           "lowering does not cover yet; use a decoder (GPT-2, Llama)";
  }
  return {};
}

}  // namespace

Reason transformer_not_covered(const Transformer& t, const Job& job) {
  if (auto reason = not_covered(t)) return reason;
  return sequence_too_long(t, job);
}

Reason why_dense_invalid(const DensePlan& d, const Model& model, const Job& job, int devices) {
  if (!model.transformer) {
    return "[dense] lays out a transformer, but the model is a click-through model; use [sparse]";
  }
  const Transformer& t = *model.transformer;
  if (auto reason = degrees_below_one(d)) return reason;
  if (auto reason = sharding_mismatch(d)) return reason;
  if (auto reason = reduction_mismatch(d)) return reason;
  if (auto reason = not_covered(t)) return reason;
  if (auto reason = device_mismatch(d, devices)) return reason;
  if (auto reason = axes_missing(d)) return reason;
  if (auto reason = stages_mismatch(d, t)) return reason;
  if (auto reason = recompute_mismatch(d)) return reason;
  if (auto reason = tensor_mismatch(d, t)) return reason;
  if (auto reason = experts_mismatch(d, t)) return reason;
  if (auto reason = batch_mismatch(d, job)) return reason;
  if (auto reason = schedule_mismatch(d, job)) return reason;
  if (auto reason = too_many_passes(d, job)) return reason;
  if (auto reason = sequence_too_long(t, job)) return reason;
  if (auto reason = context_mismatch(d, t, job)) return reason;
  if (auto reason = sequence_parallel_mismatch(d, job)) return reason;
  return activations_too_large(d, t, job);
}

}  // namespace orrery::core

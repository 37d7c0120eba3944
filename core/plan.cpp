#include "core/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/job.h"

namespace orrery::core {

namespace {

using Reason = std::optional<std::string>;

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
                                                 {"microbatch", d.microbatch},
                                                 {"virtual_stages", d.virtual_stages}};
  for (const auto& [key, value] : degrees) {
    if (value < 1) return fmt::format("dense.{} = {}: must be at least 1", key, value);
  }
  return {};
}

/// What the plan may say but lowering does not cover yet.
Reason not_covered(const DensePlan& d) {
  const auto refuse = [](const std::string& what, const char* fix) {
    return fmt::format("{} is not covered by lowering yet; {}", what, fix);
  };
  if (d.context > 1) {
    return refuse(fmt::format("dense.context = {} (context parallelism)", d.context), "use 1");
  }
  if (d.expert > 1) {
    return refuse(fmt::format("dense.expert = {} (expert parallelism)", d.expert), "use 1");
  }
  if (d.sequence_parallel) return refuse("dense.sequence_parallel = true", "use false");
  if (d.sharding_stage > 1) {
    return refuse(fmt::format("dense.sharding_stage = {}", d.sharding_stage), "use 0 or 1");
  }
  if (d.virtual_stages > 1) {
    return refuse(fmt::format("dense.virtual_stages = {}", d.virtual_stages), "use 1");
  }
  if (d.schedule == PipelineSchedule::Interleaved || d.schedule == PipelineSchedule::ZeroBubble) {
    return refuse(fmt::format("dense.schedule = \"{}\"", schedule_name(d.schedule)),
                  "use \"gpipe\" or \"1f1b\"");
  }
  if (d.recompute == Recompute::Selective) {
    return refuse("dense.recompute = \"selective\"", "use \"none\" or \"full\"");
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
  if (d.sharding == 1 && d.sharding_stage > 0) {
    return fmt::format(
        "dense.sharding_stage = {} has no effect with dense.sharding = 1; use 0, or a larger "
        "dense.sharding",
        d.sharding_stage);
  }
  return {};
}

Reason device_mismatch(const DensePlan& d, int devices) {
  // A double: degrees from a file may overflow any integer.
  const double needed = 1.0 * d.data * d.sharding * d.pipeline * d.context * d.tensor;
  if (needed == devices) return {};
  return fmt::format(
      "dense: data {} · sharding {} · pipeline {} · context {} · tensor {} = {:.0f} devices, but "
      "the "
      "cluster has {}; change a degree so that the product is {}",
      d.data, d.sharding, d.pipeline, d.context, d.tensor, needed, devices, devices);
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
  const std::pair<const char*, int> parts[] = {
      {"attention heads", t.heads}, {"key-value heads", t.kv_heads}, {"feed-forward width", t.ffn}};
  for (const auto& [what, count] : parts) {
    if (count % d.tensor == 0) continue;
    return fmt::format("dense.tensor = {}: must divide the model's {} ({}); use {}", d.tensor, what,
                       count, common_divisors({t.heads, t.kv_heads, t.ffn}));
  }
  return {};
}

Reason batch_mismatch(const DensePlan& d, const Job& job) {
  const std::int64_t per_microbatch = std::int64_t{d.data} * d.sharding * d.microbatch;
  if (job.global_batch >= 1 && job.global_batch % per_microbatch == 0) return {};
  return fmt::format(
      "dense.microbatch = {}: the job's global batch of {} is no multiple of data {} · sharding {} "
      "· microbatch {} = {}; change a degree, the microbatch or the global batch",
      d.microbatch, job.global_batch, d.data, d.sharding, d.microbatch, per_microbatch);
}

// A Program lists every pass of a step, and this many take seconds to lower. The largest
// published plans have some ten thousand.
constexpr std::int64_t kMostPasses = 200'000;
// Bytes of a buffer are counted exactly, in doubles too, up to 2^53.
constexpr double kMostElements = 1e15;

Reason too_many_passes(const DensePlan& d, const Job& job) {
  const std::int64_t count = microbatches(d, job.global_batch);
  if (count * d.pipeline <= kMostPasses) return {};
  return fmt::format(
      "dense.microbatch = {}: {} microbatches on {} stages are more than the {} passes of a step "
      "that a program can hold; use a larger microbatch, or a smaller global batch",
      d.microbatch, count, d.pipeline, kMostPasses);
}

Reason activations_too_large(const DensePlan& d, const Transformer& t, const Job& job) {
  const double width =
      std::max({1.0 * t.hidden, 1.0 * t.ffn, 1.0 * t.vocab, 1.0 * t.heads * t.head_dim});
  const double elements = 1.0 * d.microbatch * job.sequence * width;
  if (elements <= kMostElements) return {};
  return fmt::format(
      "dense.microbatch = {}: a microbatch of sequences of {} tokens has activations of {:g} "
      "elements; use at most {:g}",
      d.microbatch, job.sequence, elements, kMostElements);
}

Reason sequence_too_long(const Transformer& t, const Job& job) {
  if (job.sequence < 1)
    return fmt::format("the job's sequence is {}; use at least 1", job.sequence);
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

Reason model_not_covered(const Transformer& t) {
  if (t.experts > 1) {
    return fmt::format(
        "the model has {} experts, which lowering does not cover yet; use a dense model",
        t.experts);
  }
  if (t.post_norm || t.mlm_head) {
    return "the model is an encoder (normalises after the residual, masked-language head), which "
           "lowering does not cover yet; use a decoder (GPT-2, Llama)";
  }
  return {};
}

Reason why_dense_invalid(const DensePlan& d, const Model& model, const Job& job, int devices) {
  if (!model.transformer) {
    return "[dense] lays out a transformer, but the model is a click-through model; use [sparse]";
  }
  const Transformer& t = *model.transformer;
  if (auto reason = degrees_below_one(d)) return reason;
  if (auto reason = sharding_mismatch(d)) return reason;
  if (auto reason = not_covered(d)) return reason;
  if (auto reason = model_not_covered(t)) return reason;
  if (auto reason = device_mismatch(d, devices)) return reason;
  if (auto reason = axes_missing(d)) return reason;
  if (auto reason = stages_mismatch(d, t)) return reason;
  if (auto reason = tensor_mismatch(d, t)) return reason;
  if (auto reason = batch_mismatch(d, job)) return reason;
  if (auto reason = too_many_passes(d, job)) return reason;
  if (auto reason = sequence_too_long(t, job)) return reason;
  return activations_too_large(d, t, job);
}

Reason click_through_not_covered(const ClickThrough& c) {
  if (c.interaction == Interaction::Dot) {
    return "the model's interaction \"dot\" is not covered by lowering yet; use "
           "\"factorization-machine\" or \"none\"";
  }
  for (const EmbeddingTable& table : c.tables) {
    if (table.dim == c.tables.front().dim) continue;
    return fmt::format(
        "the model's tables \"{}\" (dim {}) and \"{}\" (dim {}) differ in width, which lowering "
        "does not cover yet; use one dim",
        c.tables.front().name, c.tables.front().dim, table.name, table.dim);
  }
  return {};
}

Reason tables_too_large(const ClickThrough& c) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();  // Keys are Int32.
  std::int64_t rows = 0;
  for (const EmbeddingTable& table : c.tables) {
    if (table.rows < table.lookups_per_sample) {
      return fmt::format(
          "the model's table \"{}\" has {} rows for {} fields; use at least one each", table.name,
          table.rows, table.lookups_per_sample);
    }
    if (table.rows > kMostRows - rows) {
      return fmt::format(
          "the model's tables have more than {} rows in all, which keys of 32 bits "
          "cannot name; use fewer",
          kMostRows);
    }
    rows += table.rows;
  }
  return {};
}

/// What the job may say but the parameter server does not do yet.
Reason sparse_job_not_covered(const ClickThrough& c, const Job& job) {
  if (!job.sparse_optimizer) {
    return "the job has no optimizer for the embedding tables; add [sparse_optimizer]";
  }
  const Optimizer& o = *job.sparse_optimizer;
  if (o.kind != OptimizerKind::AdaGrad && o.kind != OptimizerKind::Sgd) {
    return "the job's sparse_optimizer is not covered by lowering yet; use \"adagrad\" or \"sgd\"";
  }
  if (o.weight_decay != 0.0) {
    return fmt::format("the job's sparse_optimizer.weight_decay = {} is not covered yet; use 0",
                       o.weight_decay);
  }
  if (job.clip_norm) {
    return "the job's clip_norm is not covered with [sparse] yet: rows' gradients never meet on "
           "one "
           "rank; leave it out";
  }
  return tables_too_large(c);
}

Reason sparse_counts(const SparsePlan& s, int devices) {
  const std::pair<const char*, int> counts[] = {
      {"workers", s.workers}, {"servers", s.servers}, {"slices", s.slices}};
  for (const auto& [key, value] : counts) {
    if (value < 1) return fmt::format("sparse.{} = {}: must be at least 1", key, value);
  }
  if (s.colocated && s.servers > s.workers) {
    return fmt::format(
        "sparse.servers = {}: servers that are workers too cannot outnumber the {} workers; use at "
        "most {}",
        s.servers, s.workers, s.workers);
  }
  const std::int64_t needed = std::int64_t{s.workers} + (s.colocated ? 0 : s.servers);
  if (needed == devices) return {};
  return fmt::format(
      "sparse: {} workers{} = {} ranks, but the cluster has {}; change workers or servers so that "
      "the sum is {}",
      s.workers, s.colocated ? "" : fmt::format(" + {} servers", s.servers), needed, devices,
      devices);
}

Reason sparse_too_large(const SparsePlan& s, const ClickThrough& c, const Job& job) {
  const std::int64_t passes = std::int64_t{s.workers} * s.slices;
  if (passes > kMostPasses) {
    return fmt::format(
        "sparse.slices = {}: workers {} · slices {} = {} are more than the {} slices of a step "
        "that "
        "a program can hold; use fewer",
        s.slices, s.workers, s.slices, passes, kMostPasses);
  }
  double width = c.dense_features;
  for (const EmbeddingTable& table : c.tables) width += 1.0 * table.lookups_per_sample * table.dim;
  const double elements = width * (1.0 * job.global_batch / static_cast<double>(passes));
  if (elements <= kMostElements) return {};
  return fmt::format(
      "sparse.slices = {}: a slice's samples have {:g} looked-up numbers; use at most {:g}",
      s.slices, elements, kMostElements);
}

Reason why_sparse_invalid(const SparsePlan& s, const Model& model, const Job& job, int devices) {
  if (!model.click_through) {
    return "[sparse] lays out embedding tables, but the model is a transformer; use [dense]";
  }
  if (auto reason = sparse_counts(s, devices)) return reason;
  if (s.mode != UpdateMode::Synchronous) {
    return fmt::format("sparse.mode = \"{}\" is not covered by lowering yet; use \"synchronous\"",
                       update_mode_name(s.mode));
  }
  if (auto reason = click_through_not_covered(*model.click_through)) return reason;
  if (auto reason = sparse_job_not_covered(*model.click_through, job)) return reason;
  const std::int64_t parts = std::int64_t{s.workers} * s.slices;
  if (job.global_batch >= 1 && job.global_batch % parts == 0) {
    return sparse_too_large(s, *model.click_through, job);
  }
  return fmt::format(
      "sparse: the job's global batch of {} is no multiple of workers {} · slices {} = {}; change "
      "one of them",
      job.global_batch, s.workers, s.slices, parts);
}

std::string describe_dense(const DensePlan& d) {
  std::string text = fmt::format("dp{} tp{} pp{}", d.data, d.tensor, d.pipeline);
  text += fmt::format(" sh{}", d.sharding);
  if (d.sharding_stage > 1) text += fmt::format("z{}", d.sharding_stage);
  if (d.context > 1) text += fmt::format(" cp{}", d.context);
  if (d.expert > 1) text += fmt::format(" ep{}", d.expert);
  if (d.sequence_parallel) text += " sp";
  text += fmt::format(" mb{} {}", d.microbatch, schedule_name(d.schedule));
  if (d.virtual_stages > 1) text += fmt::format(" v{}", d.virtual_stages);
  return text + fmt::format(" {}", recompute_name(d.recompute));
}

std::string describe_sparse(const SparsePlan& s) {
  std::string text = fmt::format("workers{} servers{}", s.workers, s.servers);
  if (s.colocated) text += " colocated";
  if (s.slices > 1) text += fmt::format(" slices{}", s.slices);
  return text + fmt::format(" {}", update_mode_name(s.mode));
}

}  // namespace

std::string_view axis_name(Axis axis) {
  switch (axis) {
    case Axis::Tensor:
      return "tensor";
    case Axis::Context:
      return "context";
    case Axis::Sharding:
      return "sharding";
    case Axis::Expert:
      return "expert";
    case Axis::Pipeline:
      return "pipeline";
    case Axis::Data:
      return "data";
  }
  ORRERY_CHECK(false, "unknown Axis");
}

std::string_view schedule_name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::GPipe:
      return "gpipe";
    case PipelineSchedule::OneFOneB:
      return "1f1b";
    case PipelineSchedule::Interleaved:
      return "interleaved";
    case PipelineSchedule::ZeroBubble:
      return "zero-bubble";
  }
  ORRERY_CHECK(false, "unknown PipelineSchedule");
}

std::string_view recompute_name(Recompute recompute) {
  switch (recompute) {
    case Recompute::None:
      return "none";
    case Recompute::Selective:
      return "selective";
    case Recompute::Full:
      return "full";
  }
  ORRERY_CHECK(false, "unknown Recompute");
}

std::string_view update_mode_name(UpdateMode mode) {
  switch (mode) {
    case UpdateMode::Synchronous:
      return "synchronous";
    case UpdateMode::BoundedStaleness:
      return "bounded-staleness";
    case UpdateMode::Asynchronous:
      return "asynchronous";
    case UpdateMode::Geo:
      return "geo";
  }
  ORRERY_CHECK(false, "unknown UpdateMode");
}

int Plan::devices() const {
  if (dense) return dense->devices();
  return sparse ? sparse->devices() : 0;
}

int microbatches(const DensePlan& plan, int global_batch) {
  return global_batch / (plan.data_ways() * plan.microbatch);
}

std::vector<int> even_layers(int layers, int parts) {
  ORRERY_CHECK(parts >= 1 && layers >= 0, "layers are dealt to at least one part");
  std::vector<int> counts(static_cast<std::size_t>(parts), layers / parts);
  for (int i = 0; i < layers % parts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

std::string describe(const Plan& plan) {
  std::string text = plan.dense ? describe_dense(*plan.dense) : "";
  if (plan.sparse) text += (text.empty() ? "" : " + ") + describe_sparse(*plan.sparse);
  return text;
}

std::optional<std::string> why_not_covered(const Model& model, const Job& job) {
  if (model.transformer) {
    if (auto reason = model_not_covered(*model.transformer)) return reason;
    return sequence_too_long(*model.transformer, job);
  }
  if (auto reason = click_through_not_covered(*model.click_through)) return reason;
  return sparse_job_not_covered(*model.click_through, job);
}

std::optional<std::string> why_invalid(const Plan& plan, const Model& model, const Job& job,
                                       int devices) {
  if (plan.dense && plan.sparse) {
    return "a plan with both [dense] and [sparse] is not covered by lowering yet; use one of them";
  }
  if (plan.dense) return why_dense_invalid(*plan.dense, model, job, devices);
  if (plan.sparse) return why_sparse_invalid(*plan.sparse, model, job, devices);
  return "the plan has neither [dense] nor [sparse]; add the part that fits the model";
}

}  // namespace orrery::core

#include "tests/agreement/dense_plans.h"

#include <algorithm>
#include <random>

namespace orrery::agreement {
namespace {

using core::Axis;
using core::DensePlan;
using core::PipelineSchedule;
using core::Recompute;

NamedPlan named(std::string name, DensePlan dense) {
  if (dense.layers_per_stage.empty()) dense.layers_per_stage = core::even_layers(4, dense.pipeline);
  if (dense.sharding > 1 && dense.sharding_stage == 0) dense.sharding_stage = 1;
  std::vector<Axis>& order = dense.axis_order;
  if (dense.expert > 1 && std::ranges::count(order, Axis::Expert) == 0) {
    order.insert(order.begin() + 1, Axis::Expert);
  }
  core::Plan plan;
  plan.name = name;
  plan.dense = std::move(dense);
  return {std::move(name), std::move(plan)};
}

}  // namespace

std::vector<NamedPlan> dense_plans() {
  const auto gpipe = PipelineSchedule::GPipe;
  const auto full = Recompute::Full;
  const auto selective = Recompute::Selective;
  const auto plain = core::AttentionKind::Plain;
  const auto exchange = core::ContextMethod::AllToAll;
  return {
      named("four microbatches", {.microbatch = 2}),
      named("data 2", {.data = 2, .microbatch = 2}),
      named("sharding 4", {.sharding = 4, .recompute = full}),
      named("tensor 2", {.tensor = 2, .microbatch = 4}),
      named("pipeline 2 gpipe", {.pipeline = 2, .microbatch = 1, .schedule = gpipe}),
      named("pipeline 3 uneven", {.pipeline = 3, .layers_per_stage = {2, 1, 1}, .microbatch = 2}),
      named("pipeline 4 1f1b full", {.pipeline = 4, .microbatch = 1, .recompute = full}),
      named("data 2 tensor 2 pipeline 2", {.data = 2, .tensor = 2, .pipeline = 2}),
      named("sharding 2 tensor 2 pipeline 2 gpipe full",
            {.sharding = 2, .tensor = 2, .pipeline = 2, .schedule = gpipe, .recompute = full}),
      named("tensor 2 sequence parallel",
            {.tensor = 2, .sequence_parallel = true, .microbatch = 4}),
      named("data 2 tensor 2 pipeline 2 sequence parallel full",
            {.data = 2, .tensor = 2, .pipeline = 2, .sequence_parallel = true, .recompute = full}),
      named("pipeline 2 interleaved", {.pipeline = 2,
                                       .virtual_stages = 2,
                                       .layers_per_stage = {1, 1, 1, 1},
                                       .schedule = PipelineSchedule::Interleaved}),
      named("pipeline 2 zb-h1", {.pipeline = 2, .schedule = PipelineSchedule::ZeroBubbleH1}),
      named("tensor 2 pipeline 4 zb-h1",
            {.tensor = 2, .pipeline = 4, .schedule = PipelineSchedule::ZeroBubbleH1}),
      named("pipeline 3 zb-2p",
            {.pipeline = 3,
             .schedule = PipelineSchedule::ZeroBubble2p,
             .pass_times = core::PassTimes{core::Seconds(3), core::Seconds(3), core::Seconds(2),
                                           core::Seconds(0.1)}}),
      named("plain attention", {.microbatch = 4, .attention = plain}),
      named("pipeline 2 selective", {.pipeline = 2, .microbatch = 2, .recompute = selective}),
      named("tensor 2 sequence parallel, selective of plain attention", {.tensor = 2,
                                                                         .sequence_parallel = true,
                                                                         .microbatch = 2,
                                                                         .recompute = selective,
                                                                         .recompute_layers = 3,
                                                                         .attention = plain}),
      named("pipeline 2, full in the first layer",
            {.pipeline = 2, .microbatch = 2, .recompute = full, .recompute_layers = 1}),
      named("tensor 2, sequence parallel, whole layers again", {.tensor = 2,
                                                                .sequence_parallel = true,
                                                                .microbatch = 4,
                                                                .recompute = full,
                                                                .recompute_whole = true}),
      named("data 2, two layers a bucket",
            {.data = 2, .microbatch = 2, .bucket = core::Bytes(90e3)}),
      named("data 2 sharding 2, one reduction",
            {.data = 2, .sharding = 2, .overlap_gradients = false}),
      named("sharding 4 of stage 2", {.sharding = 4, .sharding_stage = 2}),
      named("sharding 2 of stage 2, data 2, two layers a bucket",
            {.data = 2, .sharding = 2, .sharding_stage = 2, .bucket = core::Bytes(90e3)}),
      named("sharding 2 of stage 2, pipeline 2, tensor 2, sequence parallel",
            {.sharding = 2,
             .sharding_stage = 2,
             .tensor = 2,
             .pipeline = 2,
             .sequence_parallel = true,
             .microbatch = 2}),
      named("sharding 4 of stage 3", {.sharding = 4, .sharding_stage = 3}),
      named("sharding 2 of stage 3, data 2, pipeline 2, full",
            {.data = 2, .sharding = 2, .sharding_stage = 3, .pipeline = 2, .recompute = full}),
      named("sharding 2 of stage 3, pipeline 2 gpipe, tensor 2, sequence parallel",
            {.sharding = 2,
             .sharding_stage = 3,
             .tensor = 2,
             .pipeline = 2,
             .sequence_parallel = true,
             .microbatch = 2,
             .schedule = gpipe}),
      named("context 2 ring", {.context = 2, .microbatch = 2, .axis_order = {Axis::Context}}),
      named("context 4 ring, data 2",
            {.data = 2, .context = 4, .microbatch = 2, .axis_order = {Axis::Context, Axis::Data}}),
      named("context 2 ring, tensor 2, pipeline 2, sequence parallel, full",
            {.tensor = 2,
             .pipeline = 2,
             .context = 2,
             .sequence_parallel = true,
             .microbatch = 4,
             .recompute = full,
             .axis_order = {Axis::Tensor, Axis::Context, Axis::Pipeline}}),
      named("context 2 all-to-all", {.context = 2,
                                     .microbatch = 2,
                                     .context_method = exchange,
                                     .axis_order = {Axis::Context, Axis::Data}}),
      named("context 2 all-to-all, tensor 2, sharding 2 of stage 2, sequence parallel, plain, "
            "selective",
            {.sharding = 2,
             .sharding_stage = 2,
             .tensor = 2,
             .context = 2,
             .sequence_parallel = true,
             .microbatch = 2,
             .recompute = selective,
             .attention = plain,
             .context_method = exchange,
             .axis_order = {Axis::Tensor, Axis::Context, Axis::Sharding}}),
      named("context 2 all-to-all, data 2, pipeline 2, full",
            {.data = 2,
             .pipeline = 2,
             .context = 2,
             .microbatch = 2,
             .recompute = full,
             .context_method = exchange,
             .axis_order = {Axis::Context, Axis::Pipeline, Axis::Data}}),
      named("data 2 sharding 2 pipeline 2, data innermost",
            {.data = 2,
             .sharding = 2,
             .pipeline = 2,
             .axis_order = {Axis::Data, Axis::Pipeline, Axis::Sharding, Axis::Tensor}}),
  };
}

std::vector<NamedPlan> expert_plans() {
  const auto full = Recompute::Full;
  std::vector<NamedPlan> plans = {
      named("experts, two microbatches", {.microbatch = 4}),
      named("expert 2", {.expert = 2, .microbatch = 2}),
      named("expert 4", {.expert = 4}),
      named("data 2 expert 2", {.data = 2, .expert = 2, .microbatch = 2}),
      named("expert 2 of stage 1", {.sharding_stage = 1, .expert = 2, .microbatch = 2}),
      named("sharding 2 expert 2, full", {.sharding = 2, .expert = 2, .recompute = full}),
      named("sharding 2 of stage 2, expert 2, data 2, two layers a bucket",
            {.data = 2,
             .sharding = 2,
             .sharding_stage = 2,
             .expert = 2,
             .bucket = core::Bytes(200e3)}),
      named("expert 2 of stage 3, data 2", {.data = 2, .sharding_stage = 3, .expert = 2}),
      named("sharding 2 of stage 3, expert 2, pipeline 2, full",
            {.sharding = 2, .sharding_stage = 3, .pipeline = 2, .expert = 2, .recompute = full}),
      named("experts over tensor 2", {.tensor = 2, .expert_tensor = 2, .microbatch = 4}),
      named("expert 2 over tensor 2, sequence parallel, pipeline 2", {.tensor = 2,
                                                                      .pipeline = 2,
                                                                      .expert = 2,
                                                                      .expert_tensor = 2,
                                                                      .sequence_parallel = true,
                                                                      .microbatch = 2}),
      named("experts of tensor 2, sequence parallel",
            {.tensor = 2, .sequence_parallel = true, .microbatch = 4}),
      named("expert 2, experts of tensor 2, sequence parallel, sharding 2, full",
            {.sharding = 2,
             .tensor = 2,
             .expert = 2,
             .sequence_parallel = true,
             .microbatch = 2,
             .recompute = full}),
      named("expert 2 context 2 ring", {.context = 2,
                                        .expert = 2,
                                        .microbatch = 2,
                                        .axis_order = {Axis::Context, Axis::Expert}}),
      named("expert 2 pipeline 2 zb-h1",
            {.pipeline = 2, .expert = 2, .schedule = PipelineSchedule::ZeroBubbleH1}),
      named("expert 2 pipeline 2 interleaved, one reduction",
            {.pipeline = 2,
             .expert = 2,
             .virtual_stages = 2,
             .layers_per_stage = {1, 1, 1, 1},
             .schedule = PipelineSchedule::Interleaved,
             .overlap_gradients = false}),
  };
  for (NamedPlan& plan : plans) plan.plan.dense->expert_capacity = 2;  // 4 experts, 2 for each.
  return plans;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const auto& [name, plan] : dense_plans()) all.push_back({name, plan, small_gpt2()});
  for (const auto& [name, plan] : expert_plans()) all.push_back({name, plan, small_mixtral()});
  return all;
}

core::Plan one_rank_plan() {
  return named("one rank", {.expert_capacity = 2, .microbatch = 8}).plan;
}

core::Model small_gpt2() {
  core::Transformer t;
  t.family = core::ModelFamily::Gpt2;
  t.layers = 4;
  t.hidden = 32;
  t.heads = t.kv_heads = 4;
  t.head_dim = 8;
  t.ffn = 128;
  t.vocab = 61;
  t.max_positions = 16;
  t.qkv_bias = t.linear_bias = t.tied_embeddings = true;
  return {"small gpt2", t, std::nullopt};
}

core::Model small_llama() {
  core::Transformer t;
  t.family = core::ModelFamily::Llama;
  t.layers = 4;
  t.hidden = 32;
  t.heads = 4;
  t.kv_heads = 2;
  t.head_dim = 8;
  t.ffn = 72;
  t.vocab = 61;
  t.max_positions = 16;
  t.normalization = core::Normalization::RmsNorm;
  t.activation = core::ActivationKind::SwiGlu;
  t.position = core::PositionKind::Rotary;
  return {"small llama", t, std::nullopt};
}

core::Model small_mixtral() {
  core::Model model = small_llama();
  model.name = "small mixtral";
  model.transformer->family = core::ModelFamily::Mixtral;
  model.transformer->experts = 4;
  model.transformer->experts_per_token = 2;
  return model;
}

core::Job small_job() {
  core::Job job;
  job.sequence = 16;
  job.global_batch = 8;
  job.optimizer.learning_rate = 1e-3;
  job.optimizer.weight_decay = 0.1;
  job.schedule = core::LearningRateSchedule{4, 1e-4};
  job.clip_norm = 1.0;
  job.steps = 20;
  job.seed = 7;
  return job;
}

core::Cluster cpu_cluster(int ranks) {
  core::NodeType node;
  node.name = "host";
  node.device.name = "cpu";
  node.device.kind = core::DeviceKind::Cpu;
  node.device.memory_bandwidth = core::BytesPerSecond(10e9);
  node.devices = ranks;
  node.cores = 2;
  node.fabric = core::NodeFabric::Memory;
  node.device_link = {core::Seconds(5e-6), core::BytesPerSecond(5e9)};
  return {"host", {{node, 1}}, {}, {}};
}

engine::TokenArray random_tokens(const core::Job& job, int vocab, int steps) {
  std::mt19937_64 random(job.seed);
  const std::size_t count = static_cast<std::size_t>(steps) *
                            static_cast<std::size_t>(job.global_batch) *
                            static_cast<std::size_t>(job.sequence);
  std::vector<std::int32_t> tokens(count);
  std::vector<std::int32_t> targets(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
    targets[i] = (3 * tokens[i] + 1) % vocab;  // Learnable: the next token follows from this one.
  }
  return {job.global_batch, job.sequence, std::move(tokens), std::move(targets)};
}

}  // namespace orrery::agreement

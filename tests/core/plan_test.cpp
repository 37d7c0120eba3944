#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "core/check/plan_check.h"
#include "core/job.h"

namespace orrery::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model decoder() {
  Transformer t;
  t.layers = 8;
  t.hidden = 64;
  t.heads = 8;
  t.kv_heads = 4;
  t.head_dim = 8;
  t.ffn = 256;
  t.vocab = 257;
  t.max_positions = 128;
  return Model{"decoder", t, {}};
}

Model deepfm() {
  ClickThrough c;
  c.dense_features = 13;
  c.tables = {{"hash", 5200, 8, 26, 0.0}};
  c.mlp = {64, 32};
  return Model{"deepfm", {}, c};
}

Job job() {
  Job j;
  j.sequence = 128;
  j.global_batch = 16;
  j.sparse_optimizer = Optimizer{.kind = OptimizerKind::AdaGrad, .learning_rate = 0.05};
  return j;
}

// 2·2·2·2 = 16 devices; 16 sequences over 4 data ways of 1: 4 microbatches.
Plan dense() {
  Plan plan;
  DensePlan d;
  d.data = 2;
  d.sharding = 2;
  d.sharding_stage = 1;
  d.tensor = 2;
  d.pipeline = 2;
  d.layers_per_stage = {4, 4};
  plan.dense = d;
  return plan;
}

Plan sparse() {
  Plan plan;
  plan.sparse = SparsePlan{2, 2, false, UpdateMode::Synchronous, 1};
  return plan;
}

TEST(Plan, CountsDevicesAndMicrobatches) {
  EXPECT_EQ(dense().devices(), 16);
  EXPECT_EQ(microbatches(*dense().dense, 16), 4);
  EXPECT_EQ(sparse().devices(), 4);
}

TEST(Plan, DescribesItselfInOneLine) {
  EXPECT_EQ(describe(dense()), "dp2 tp2 pp2 sh2 mb1 1f1b none");
  EXPECT_EQ(describe(sparse()), "workers2 servers2 synchronous");
}

TEST(EvenLayers, GivesTheRemainderToTheFirst) {
  EXPECT_THAT(even_layers(8, 4), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(even_layers(10, 4), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(even_layers(2, 1), ElementsAre(2));
}

TEST(WhyInvalid, AcceptsASoundPlan) {
  EXPECT_EQ(why_invalid(dense(), decoder(), job(), 16), std::nullopt);
  EXPECT_EQ(why_invalid(sparse(), deepfm(), job(), 4), std::nullopt);
}

struct Fault {
  const char* name;
  std::function<void(Plan&, Model&, Job&)> make;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

/// 4 experts, each over a tensor group.
void with_experts(Plan& plan, Model& model) {
  model.transformer->experts = 4;
  model.transformer->experts_per_token = 2;
  model.transformer->linear_bias = false;
  plan.dense->expert_tensor = plan.dense->tensor;
}

class DenseFault : public ::testing::TestWithParam<Fault> {};

TEST_P(DenseFault, IsNamedWithItsRule) {
  Plan plan = dense();
  Model model = decoder();
  Job asked = job();
  GetParam().make(plan, model, asked);
  const auto reason = why_invalid(plan, model, asked, 16);
  ASSERT_TRUE(reason.has_value());
  EXPECT_THAT(*reason, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, DenseFault,
    ::testing::Values(
        Fault{"no_part", [](Plan& p, Model&, Job&) { p.dense.reset(); }, "neither [dense] nor"},
        Fault{"both_parts", [](Plan& p, Model&, Job&) { p.sparse = SparsePlan{}; },
              "both [dense] and [sparse]"},
        Fault{"zero_degree", [](Plan& p, Model&, Job&) { p.dense->tensor = 0; },
              "dense.tensor = 0: must be at least 1"},
        Fault{"product", [](Plan& p, Model&, Job&) { p.dense->data = 3; },
              "= 24 devices, but the cluster has 16"},
        Fault{"huge_product",
              [](Plan& p, Model&, Job&) { p.dense->data = p.dense->sharding = 1 << 30; },
              "but the cluster has 16"},
        Fault{"heads", [](Plan&, Model& m, Job&) { m.transformer->heads = 9; },
              "dense.tensor = 2: must divide the model's attention heads (9); use 1"},
        Fault{"kv_heads", [](Plan&, Model& m, Job&) { m.transformer->kv_heads = 1; },
              "key-value heads (1)"},
        Fault{"ffn", [](Plan&, Model& m, Job&) { m.transformer->ffn = 255; },
              "feed-forward width (255)"},
        Fault{"stage_count", [](Plan& p, Model&, Job&) { p.dense->layers_per_stage = {8}; },
              "has 1 entries, pipeline · virtual_stages needs 2, e.g. [4, 4]"},
        Fault{"empty_stage",
              [](Plan& p, Model&, Job&) {
                p.dense->layers_per_stage = {8, 0};
              },
              "each stage needs at least 1 layer"},
        Fault{"layer_sum",
              [](Plan& p, Model&, Job&) {
                p.dense->layers_per_stage = {4, 3};
              },
              "sums to 7, the model has 8 layers"},
        Fault{"more_stages_than_layers", [](Plan&, Model& m, Job&) { m.transformer->layers = 1; },
              "2 stages for 1 layers"},
        Fault{"batch", [](Plan&, Model&, Job& j) { j.global_batch = 18; },
              "global batch of 18 is no multiple of"},
        Fault{"zero_batch", [](Plan&, Model&, Job& j) { j.global_batch = 0; },
              "global batch of 0 is no multiple of"},
        Fault{"sharding_without_stage", [](Plan& p, Model&, Job&) { p.dense->sharding_stage = 0; },
              "dense.sharding = 2 needs a dense.sharding_stage"},
        Fault{"stage_without_sharding",
              [](Plan& p, Model&, Job&) {
                p.dense->sharding = 1;
                p.dense->data = 4;
              },
              "dense.sharding_stage = 1 has no effect"},
        Fault{"one_reduction_of_stage_2",
              [](Plan& p, Model&, Job&) {
                p.dense->sharding_stage = 2;
                p.dense->overlap_gradients = false;
              },
              "dense.overlap_gradients = false: dense.sharding_stage = 2 reduces gradients within"},
        Fault{"zero_bubble_of_stage_3",
              [](Plan& p, Model&, Job&) {
                p.dense->sharding_stage = 3;
                p.dense->schedule = PipelineSchedule::ZeroBubbleH1;
              },
              "dense.sharding_stage = 3 with dense.schedule = \"zb-h1\""},
        Fault{"no_bucket", [](Plan& p, Model&, Job&) { p.dense->bucket = Bytes(0); },
              "dense.bucket: must be above 0"},
        Fault{"bucket_of_one_reduction",
              [](Plan& p, Model&, Job&) {
                p.dense->bucket = Bytes(1e6);
                p.dense->overlap_gradients = false;
              },
              "dense.bucket has no effect"},
        Fault{"sharding_stage_9", [](Plan& p, Model&, Job&) { p.dense->sharding_stage = 9; },
              "must be 0, 1, 2 or 3"},
        Fault{"context_sequence",
              [](Plan& p, Model&, Job& j) {
                p.dense->context = 2;
                p.dense->data = 1;
                p.dense->context_method = ContextMethod::AllToAll;
                p.dense->axis_order.push_back(Axis::Context);
                j.sequence = 127;
              },
              "dense.context = 2: must divide the job's sequence of 127 tokens"},
        Fault{"context_ring_of_plain",
              [](Plan& p, Model&, Job&) {
                p.dense->context = 2;
                p.dense->data = 1;
                p.dense->attention = AttentionKind::Plain;
                p.dense->axis_order.push_back(Axis::Context);
              },
              "\"plain\" with dense.context_method = \"ring\": a rank never has all scores"},
        Fault{"context_ring_pieces",
              [](Plan& p, Model&, Job& j) {
                p.dense->context = 2;
                p.dense->data = 1;
                p.dense->axis_order.push_back(Axis::Context);
                j.sequence = 126;
              },
              "a ring cuts the job's sequence of 126 tokens into 4 pieces"},
        Fault{"context_heads",
              [](Plan& p, Model&, Job&) {
                p.dense->context = 4;
                p.dense->data = p.dense->sharding = 1;
                p.dense->sharding_stage = 0;
                p.dense->context_method = ContextMethod::AllToAll;
                p.dense->axis_order.push_back(Axis::Context);
              },
              "all-to-all deals the 2 key-value heads of a tensor rank, which it must divide; use 1 "
              "or 2"},
        Fault{"expert_of_none",
              [](Plan& p, Model&, Job&) {
                p.dense->expert = 2;
                p.dense->data = 1;
                p.dense->axis_order.push_back(Axis::Expert);
              },
              "dense.expert = 2: the model has no experts; use 1"},
        Fault{"expert_tensor_of_none", [](Plan& p, Model&, Job&) { p.dense->expert_tensor = 2; },
              "dense.expert_tensor = 2: the model has no experts; use 1"},
        Fault{"expert_axis",
              [](Plan& p, Model&, Job&) {
                p.dense->expert = 2;
                p.dense->data = 1;
              },
              "names \"expert\" 0 times"},
        Fault{"experts_on_too_many",
              [](Plan& p, Model& m, Job&) {
                with_experts(p, m);
                p.dense->expert = 2;
                p.dense->data = 1;
                p.dense->axis_order.push_back(Axis::Expert);
                m.transformer->experts = 7;
              },
              "dense.expert = 2: 2 ranks do not divide the model's 7 experts; use 1 or 7"},
        Fault{"expert_tensor",
              [](Plan& p, Model& m, Job&) {
                with_experts(p, m);
                p.dense->expert_tensor = 4;
              },
              "dense.expert_tensor = 4: each expert lies on one rank, or on all of a tensor group; use "
              "1 or 2"},
        Fault{"experts_of_tensor_ranks",
              [](Plan& p, Model& m, Job&) {
                with_experts(p, m);
                p.dense->expert_tensor = 1;
              },
              "which needs dense.sequence_parallel = true; or use dense.expert_tensor = 2"},
        Fault{"expert_capacity",
              [](Plan& p, Model& m, Job&) {
                with_experts(p, m);
                p.dense->expert_capacity = 0;
              },
              "dense.expert_capacity: must be above 0"},
        Fault{"sequence_parallel_alone",
              [](Plan& p, Model&, Job&) {
                p.dense->sequence_parallel = true;
                p.dense->tensor = 1;
                p.dense->data = 4;
              },
              "dense.sequence_parallel = true has no effect with dense.tensor = 1"},
        Fault{"sequence_parallel_rows",
              [](Plan& p, Model&, Job& j) {
                p.dense->sequence_parallel = true;
                j.sequence = 127;
              },
              "1 sequences of 127 tokens are 127 rows, which dense.tensor = 2 does not divide"},
        Fault{"virtual_stages",
              [](Plan& p, Model&, Job&) {
                p.dense->virtual_stages = 2;
                p.dense->layers_per_stage = {2, 2, 2, 2};
              },
              "dense.virtual_stages = 2 needs dense.schedule = \"interleaved\""},
        Fault{"interleaved",
              [](Plan& p, Model&, Job&) { p.dense->schedule = PipelineSchedule::Interleaved; },
              "needs dense.virtual_stages of at least 2"},
        Fault{"interleaved_groups",
              [](Plan& p, Model&, Job& j) {
                p.dense->schedule = PipelineSchedule::Interleaved;
                p.dense->virtual_stages = 2;
                p.dense->layers_per_stage = {2, 2, 2, 2};
                j.global_batch = 12;
              },
              "in groups of dense.pipeline = 2, which does not divide the 3 microbatches"},
        Fault{"interleaved_alone",
              [](Plan& p, Model&, Job&) {
                p.dense->schedule = PipelineSchedule::Interleaved;
                p.dense->virtual_stages = 2;
                p.dense->pipeline = 1;
                p.dense->data = 4;
              },
              "needs dense.pipeline of at least 2"},
        Fault{"zero_bubble_without_times",
              [](Plan& p, Model&, Job&) { p.dense->schedule = PipelineSchedule::ZeroBubble2p; },
              "\"zb-2p\" is computed from durations; give forward, input_grad"},
        Fault{"times_without_zero_bubble",
              [](Plan& p, Model&, Job&) { p.dense->pass_times = PassTimes{}; },
              "dense.pass_times has no effect with dense.schedule = \"1f1b\""},
        Fault{"zero_times",
              [](Plan& p, Model&, Job&) {
                p.dense->schedule = PipelineSchedule::ZeroBubble1p;
                p.dense->pass_times = PassTimes{Seconds(1), Seconds(1), Seconds(0), Seconds(0)};
              },
              "dense.pass_times.weight_grad = 0 s: must be positive"},
        Fault{"zero_bubble_recompute",
              [](Plan& p, Model&, Job&) {
                p.dense->schedule = PipelineSchedule::ZeroBubbleH1;
                p.dense->recompute = Recompute::Full;
              },
              "\"zb-h1\" with dense.recompute = \"full\": weight gradients have a pass"},
        Fault{"recompute_layers_of_none",
              [](Plan& p, Model&, Job&) { p.dense->recompute_layers = 1; },
              "dense.recompute_layers = 1 has no effect with dense.recompute = \"none\""},
        Fault{"recompute_whole_of_none",
              [](Plan& p, Model&, Job&) { p.dense->recompute_whole = true; },
              "dense.recompute_whole = true has no effect with dense.recompute = \"none\""},
        Fault{"recompute_too_many_layers",
              [](Plan& p, Model&, Job&) {
                p.dense->recompute = Recompute::Full;
                p.dense->recompute_layers = 5;
              },
              "below the 4 layers of the smallest stage"},
        Fault{"axis_missing",
              [](Plan& p, Model&, Job&) { p.dense->axis_order = {Axis::Tensor, Axis::Data}; },
              "names \"sharding\" 0 times"},
        Fault{"axis_twice",
              [](Plan& p, Model&, Job&) { p.dense->axis_order.push_back(Axis::Tensor); },
              "names \"tensor\" 2 times"},
        Fault{"biases_of_experts",
              [](Plan& p, Model& m, Job&) {
                with_experts(p, m);
                m.transformer->linear_bias = true;
              },
              "the model's experts have biases, which lowering does not cover"},
        Fault{"encoder", [](Plan&, Model& m, Job&) { m.transformer->post_norm = true; },
              "the model is an encoder"},
        Fault{"window", [](Plan&, Model& m, Job&) { m.transformer->attention_window = 64; },
              "sliding window of 64"},
        Fault{"sequence", [](Plan&, Model&, Job& j) { j.sequence = 129; },
              "beyond the model's 128 learned positions"},
        Fault{"no_sequence", [](Plan&, Model&, Job& j) { j.sequence = 0; },
              "the job has no sequence"},
        Fault{"click_through", [](Plan&, Model& m, Job&) { m = deepfm(); },
              "[dense] lays out a transformer"}),
    [](const auto& fault) { return fault.param.name; });

class SparseFault : public ::testing::TestWithParam<Fault> {};

TEST_P(SparseFault, IsNamedWithItsRule) {
  Plan plan = sparse();
  Model model = deepfm();
  Job asked = job();
  GetParam().make(plan, model, asked);
  const auto reason = why_invalid(plan, model, asked, 4);
  ASSERT_TRUE(reason.has_value());
  EXPECT_THAT(*reason, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, SparseFault,
    ::testing::Values(
        Fault{"transformer", [](Plan&, Model& m, Job&) { m = decoder(); },
              "[sparse] lays out embedding tables"},
        Fault{"no_servers", [](Plan& p, Model&, Job&) { p.sparse->servers = 0; },
              "sparse.servers = 0: must be at least 1"},
        Fault{"ranks", [](Plan& p, Model&, Job&) { p.sparse->workers = 3; },
              "3 workers + 2 servers = 5 ranks, but the cluster has 4"},
        Fault{"colocated_servers",
              [](Plan& p, Model&, Job&) {
                p.sparse->colocated = true;
                p.sparse->servers = 3;
              },
              "cannot outnumber the 2 workers"},
        Fault{"mode", [](Plan& p, Model&, Job&) { p.sparse->mode = UpdateMode::Geo; },
              "\"geo\" is not covered"},
        Fault{"batch", [](Plan& p, Model&, Job&) { p.sparse->slices = 3; },
              "no multiple of workers 2 · slices 3 = 6"},
        Fault{"dot", [](Plan&, Model& m, Job&) { m.click_through->interaction = Interaction::Dot; },
              "\"dot\" is not covered"},
        Fault{"widths",
              [](Plan&, Model& m, Job&) {
                m.click_through->tables.push_back({"other", 10, 16, 1, 0.0});
              },
              "differ in width"},
        Fault{"no_sparse_optimizer", [](Plan&, Model&, Job& j) { j.sparse_optimizer.reset(); },
              "add [sparse_optimizer]"},
        Fault{"sparse_adam",
              [](Plan&, Model&, Job& j) { j.sparse_optimizer->kind = OptimizerKind::Adam; },
              "use \"adagrad\" or \"sgd\""},
        Fault{"clip", [](Plan&, Model&, Job& j) { j.clip_norm = 1.0; }, "clip_norm"},
        Fault{"few_rows", [](Plan&, Model& m, Job&) { m.click_through->tables[0].rows = 25; },
              "25 rows for 26 fields"},
        Fault{"many_rows",
              [](Plan&, Model& m, Job&) { m.click_through->tables[0].rows = 1LL << 31; },
              "more than 2147483647 rows"}),
    [](const auto& fault) { return fault.param.name; });

}  // namespace
}  // namespace orrery::core

#include "costmodel/search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "costmodel/pareto.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

/// Nodes of four devices, so that placement matters.
core::Cluster nodes_of_four(int nodes, double memory) {
  core::Cluster cluster = cpu_cluster(4);
  core::NodeType& type = cluster.groups[0].type;
  type.device.memory = core::Bytes(memory);
  type.network_cards = 2;
  type.network_card = {core::Seconds(3e-6), core::BytesPerSecond(3e9)};
  cluster.groups[0].count = nodes;
  if (nodes > 1) {
    cluster.network.kind = core::NetworkKind::Star;
    cluster.network.hop_latency = core::Seconds(0.5e-6);
  }
  return cluster;
}

core::Model model_of(const core::Transformer& transformer) {
  return {"small", transformer, std::nullopt};
}

// Keeping few lets the lower bound prune: the few must be the first of all.
TEST(Search, PruningLosesNothing) {
  const core::Cluster cluster = nodes_of_four(4, 16e9);
  const core::Model model = model_of(small_gpt2());
  const SearchResult all = search(model, cluster, small_job(), {.keep = 1'000'000, .refine = {}});
  const SearchResult few = search(model, cluster, small_job(), {.keep = 5, .refine = {}});
  ASSERT_EQ(few.ranked.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(core::describe(few.ranked[i].plan), core::describe(all.ranked[i].plan));
  }
}

// However few are kept, and though most are never timed then.
TEST(Search, CountsThePlansThatAreFasterThanATime) {
  const core::Cluster cluster = nodes_of_four(4, 16e9);
  const core::Model model = model_of(small_gpt2());
  const SearchResult all = search(model, cluster, small_job(), {.keep = 1'000'000, .refine = {}});
  ASSERT_GT(all.ranked.size(), 50u);
  SearchOptions options{.keep = 1, .refine = {}};
  options.place = {all.ranked[40].estimate.step, all.ranked.front().estimate.step,
                   all.ranked.back().estimate.step * 2};
  const auto first_of_equals = [&](core::Seconds step) {
    const auto found = std::find_if(all.ranked.begin(), all.ranked.end(),
                                    [&](const RankedPlan& r) { return r.estimate.step >= step; });
    return static_cast<std::size_t>(found - all.ranked.begin());
  };
  const SearchResult placed = search(model, cluster, small_job(), options);
  EXPECT_EQ(placed.ranked.size(), 1u);
  EXPECT_EQ(placed.faster,
            (std::vector<std::size_t>{first_of_equals(options.place[0]), 0, all.ranked.size()}));
}

TEST(Search, AnswersAlikeForAnyNumberOfThreads) {
  const core::Cluster cluster = nodes_of_four(4, 7e6);
  const core::Model model = model_of(small_llama());
  const SearchResult one =
      search(model, cluster, small_job(), {.keep = 20, .threads = 1, .refine = {}});
  for (const int threads : {2, 7}) {
    const SearchResult many =
        search(model, cluster, small_job(), {.keep = 20, .threads = threads, .refine = {}});
    ASSERT_EQ(many.ranked.size(), one.ranked.size());
    EXPECT_EQ(many.candidates, one.candidates);
    EXPECT_EQ(many.do_not_fit, one.do_not_fit);
    for (std::size_t i = 0; i < one.ranked.size(); ++i) {
      EXPECT_EQ(core::describe(many.ranked[i].plan), core::describe(one.ranked[i].plan));
      EXPECT_EQ(many.ranked[i].estimate.step, one.ranked[i].estimate.step);
    }
    ASSERT_EQ(many.alternatives.size(), one.alternatives.size());
    for (std::size_t i = 0; i < one.alternatives.size(); ++i) {
      EXPECT_EQ(many.alternatives[i].verdict, one.alternatives[i].verdict);
    }
  }
}

TEST(Search, RefinementReordersTheBest) {
  const core::Cluster cluster = nodes_of_four(1, 16e9);
  const core::Model model = model_of(small_llama());
  const SearchResult plain = search(model, cluster, small_job(), {.refine = {}});
  // A refinement that finds the third plan fastest.
  const std::string favourite = core::describe(plain.ranked[2].plan);
  SearchOptions options;
  options.refined = 3;
  options.refine = [&](const core::Plan& plan) {
    return core::Seconds(core::describe(plan) == favourite ? 1.0 : 2.0);
  };
  const SearchResult refined = search(model, cluster, small_job(), options);
  EXPECT_EQ(core::describe(refined.ranked[0].plan), favourite);
  EXPECT_EQ(core::describe(refined.ranked[1].plan), core::describe(plain.ranked[0].plan));
  EXPECT_EQ(refined.ranked[0].refined, core::Seconds(1.0));
  EXPECT_FALSE(refined.ranked[3].refined);
}

TEST(Search, NamesWhyWellKnownPlansLost) {
  const SearchResult result =
      search(model_of(small_llama()), nodes_of_four(2, 6e6), small_job(), {.refine = {}});
  const auto named =
      std::find_if(result.alternatives.begin(), result.alternatives.end(),
                   [](const Alternative& a) { return a.name == "data parallel only"; });
  ASSERT_NE(named, result.alternatives.end());
  EXPECT_FALSE(named->best);
  EXPECT_NE(named->verdict.find("does not fit"), std::string::npos) << named->verdict;
}

TEST(Search, SaysWhatIsMissingWhereNothingFits) {
  const SearchResult result =
      search(model_of(small_llama()), nodes_of_four(1, 1e5), small_job(), {.refine = {}});
  EXPECT_TRUE(result.ranked.empty());
  EXPECT_EQ(result.do_not_fit, result.candidates);
  EXPECT_NE(result.nothing_fits.find("does not fit"), std::string::npos) << result.nothing_fits;
}

TEST(Search, ChoosesServersAndWorkersOfAClickThroughModel) {
  core::ClickThrough c;
  c.dense_features = 4;
  c.tables = {
      {.name = "fields", .rows = 6000, .dim = 8, .lookups_per_sample = 6, .zipf_exponent = 1.05}};
  c.mlp = {64, 32};
  core::Job job;
  job.global_batch = 960;
  job.sparse_optimizer = core::Optimizer{.kind = core::OptimizerKind::AdaGrad};
  const core::Model model{"clicks", std::nullopt, c};
  const core::Cluster cluster = nodes_of_four(2, 16e9);
  const SearchResult result = search(model, cluster, job, {.keep = 5, .refine = {}});
  ASSERT_FALSE(result.ranked.empty());
  for (const core::Plan& plan : sparse_plans(model, cluster, job)) {
    const Outcome outcome = estimate(plan, model, cluster, job);
    EXPECT_GE(std::get<Estimate>(outcome).step, result.ranked.front().estimate.step)
        << core::describe(plan);
  }
}

TEST(Search, RefusesWhatNoPlanCovers) {
  core::Transformer encoder = small_gpt2();
  encoder.post_norm = true;
  EXPECT_THROW(search(model_of(encoder), cpu_cluster(2), small_job(), {.keep = 5, .refine = {}}),
               core::ConfigError);
}

// Three ranks cannot share a batch of 4 sequences, two heads or two layers.
TEST(Search, SaysWhyThereIsNoPlanAtAll) {
  core::Transformer two = small_gpt2();
  two.heads = two.kv_heads = two.layers = 2;
  core::Job job = small_job();
  job.global_batch = 4;
  const SearchResult found = search(model_of(two), cpu_cluster(3), job, {.keep = 5, .refine = {}});
  EXPECT_EQ(found.candidates, 0U);
  EXPECT_NE(found.nothing_fits.find("global batch of 4 is no multiple of data 3"),
            std::string::npos)
      << found.nothing_fits;
}

// Conditions leave of all plans those that meet them, in the same order.
TEST(Search, KeepsToWhatIsAskedFor) {
  const core::Cluster cluster = nodes_of_four(2, 16e9);
  const core::Model model = model_of(small_llama());
  SearchOptions options;
  options.keep = 1'000'000;
  const SearchResult all = search(model, cluster, small_job(), options);
  options.conditions.tensor = 2;
  options.conditions.recompute = core::Recompute::Full;
  options.conditions.sharding = 2;
  const SearchResult some = search(model, cluster, small_job(), options);
  std::vector<std::string> expected, found;
  for (const RankedPlan& r : all.ranked) {
    const core::DensePlan& d = *r.plan.dense;
    // Of all layers: that is what full recomputation means where it is asked for.
    const bool full = d.recompute == core::Recompute::Full && !d.recompute_layers;
    if (d.tensor == 2 && d.sharding == 2 && full) {
      expected.push_back(core::describe(r.plan));
    }
  }
  for (const RankedPlan& r : some.ranked) found.push_back(core::describe(r.plan));
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(found, expected);
}

// A plan may use less of a device than there is: as on a device that has no more.
TEST(Search, LessMemoryToUseIsLikeASmallerDevice) {
  const core::Model model = model_of(small_llama());
  SearchOptions options;
  options.keep = 10;
  const SearchResult smaller = search(model, nodes_of_four(2, 7e6), small_job(), options);
  options.memory = core::Bytes(7e6);
  const SearchResult less = search(model, nodes_of_four(2, 16e9), small_job(), options);
  ASSERT_EQ(less.ranked.size(), smaller.ranked.size());
  EXPECT_EQ(less.do_not_fit, smaller.do_not_fit);
  for (std::size_t i = 0; i < less.ranked.size(); ++i) {
    EXPECT_EQ(core::describe(less.ranked[i].plan), core::describe(smaller.ranked[i].plan));
  }
}

TEST(Search, SaysWhyNothingIsAsWasAskedFor) {
  SearchOptions options;
  options.conditions.tensor = 8;  // Of 4 heads.
  const SearchResult found =
      search(model_of(small_llama()), nodes_of_four(2, 16e9), small_job(), options);
  EXPECT_TRUE(found.ranked.empty());
  EXPECT_NE(found.nothing_fits.find("dense.tensor = 8"), std::string::npos) << found.nothing_fits;
}

// What is wrong is said of a plan that has all that was asked for, not of one that misses the rest.
TEST(Search, SaysWhatConditionsContradictEachOther) {
  SearchOptions options;
  options.conditions.schedule = core::PipelineSchedule::ZeroBubbleH1;
  options.conditions.recompute = core::Recompute::Full;
  options.conditions.sharding_stage = 3;
  const SearchResult found =
      search(model_of(small_gpt2()), nodes_of_four(2, 16e9), small_job(), options);
  ASSERT_TRUE(found.ranked.empty());
  for (const char* part : {"pp2", "zb-h1", "sh4"}) {
    EXPECT_NE(found.nothing_fits.find(part), std::string::npos) << found.nothing_fits;
  }
}

// Whole nodes in powers of two, the most that are allowed, and the divisors of one node.
TEST(Pareto, PartsAreDivisorsOfANodeAndThenNodes) {
  const core::Cluster cluster = nodes_of_four(7, 16e9);
  EXPECT_EQ(part_sizes(cluster, 28), (std::vector<int>{1, 2, 4, 8, 16, 28}));
  EXPECT_EQ(part_sizes(cluster, 23), (std::vector<int>{1, 2, 4, 8, 16, 20}));
  EXPECT_EQ(part_sizes(cluster, 3), (std::vector<int>{1, 2}));
  for (const int devices : part_sizes(cluster, 28)) {
    EXPECT_EQ(part_of(cluster, devices).devices(), devices);
  }
}

// More devices cost more and must be faster for it; what is slower and dearer is beaten.
TEST(Pareto, NoPlanOfTheFrontIsBeaten) {
  core::Cluster cluster = nodes_of_four(4, 16e9);
  cluster.groups[0].type.device.price_per_hour = 1.0;
  const auto front = pareto_front(
      best_of_parts(model_of(small_llama()), cluster, small_job(), {.refine = {}}, 16));
  ASSERT_FALSE(front.empty());
  for (std::size_t i = 1; i < front.size(); ++i) {
    const Estimate& fewer = front[i - 1].best.estimate;
    const Estimate& more = front[i].best.estimate;
    EXPECT_GT(more.devices, fewer.devices);
    EXPECT_LT(more.step, fewer.step);
  }
}

}  // namespace
}  // namespace orrery::costmodel

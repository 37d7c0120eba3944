// The search against brute force on random cases of at most 16 devices, and what must not change an
// answer, or only for the better.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "core/check/plan_check.h"
#include "core/lowering/pipeline_schedule.h"
#include "costmodel/dense_estimator.h"
#include "costmodel/plan_timer.h"
#include "costmodel/search.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

struct Case {
  core::Model model;
  core::Cluster cluster;
  core::Job job;
};

/// Draws small models, clusters of at most 16 devices, and jobs.
class Cases {
 public:
  explicit Cases(unsigned seed) : random_(seed) {}

  Case draw() {
    const core::Transformer models[] = {small_gpt2(), small_llama(), small_mixtral()};
    Case c{{"small", models[pick({0, 1, 2})], std::nullopt},
           cpu_cluster(pick({1, 2, 3, 4, 6, 8})),
           small_job()};
    core::Transformer& t = *c.model.transformer;
    t.layers = pick({2, 3, 4, 6, 8});
    if (t.experts > 1) t.layers = std::min(t.layers, 4);  // There are enough plans.
    t.hidden = pick({32, 64, 96});
    t.heads = t.kv_heads = pick({2, 4, 6});
    t.ffn = 4 * t.hidden;
    t.vocab = pick({100, 1000, 5000});
    c.job.global_batch = pick({8, 12, 16, 24});
    if (pick({0, 1}) == 1) c.job.precision = core::DType::BFloat16;
    core::NodeType& type = c.cluster.groups[0].type;
    // From what holds anything to what holds few plans.
    type.device.memory = core::Bytes(pick({16e9, 20e6, 8e6, 4e6}));
    type.device_link = {core::Seconds(pick({1e-6, 20e-6})),
                        core::BytesPerSecond(pick({0.5e9, 10e9, 200e9}))};
    const int nodes = pick({1, 2, 4});
    if (nodes * type.devices <= 16 && nodes > 1) spread(c.cluster, nodes);
    return c;
  }

 private:
  void spread(core::Cluster& cluster, int nodes) {
    core::NodeType& type = cluster.groups[0].type;
    type.network_cards = pick({1, 2});
    type.network_card = {core::Seconds(pick({3e-6, 30e-6})),
                         core::BytesPerSecond(pick({0.3e9, 3e9}))};
    cluster.groups[0].count = nodes;
    cluster.network.kind = core::NetworkKind::Star;
    cluster.network.hop_latency = core::Seconds(0.5e-6);
  }

  template <class T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() +
             static_cast<std::ptrdiff_t>(random_() % static_cast<unsigned>(choices.size())));
  }

  std::mt19937 random_;
};

std::string name_of(const core::DensePlan& dense) {
  core::Plan plan;
  plan.dense = dense;
  std::string name = core::describe(plan) + " layers";
  for (const int layers : dense.layers_per_stage) name += " " + std::to_string(layers);
  return name;
}

/// Every plan by nested loops over everything that a plan can say, with the steps of those that fit.
class BruteForce {
 public:
  explicit BruteForce(const Case& c)
      : case_(c), estimator_(c.model, c.cluster, c.job), devices_(c.cluster.devices()) {
    core::DensePlan d;
    for (d.tensor = 1; d.tensor <= devices_; ++d.tensor) {
      for (d.pipeline = 1; d.tensor * d.pipeline <= devices_; ++d.pipeline) {
        for (d.sharding = 1; d.tensor * d.pipeline * d.sharding <= devices_; ++d.sharding) {
          for (d.expert = 1; d.expert <= c.model.transformer->experts; ++d.expert) {
            const int others = d.tensor * d.pipeline * d.sharding * d.expert;
            d.data = std::max(1, devices_ / others);
            if (d.devices() == devices_ && d.pipeline <= c.model.transformer->layers) experts(d);
          }
        }
      }
    }
  }

  const std::map<std::string, double>& steps() const { return steps_; }
  std::size_t valid() const { return valid_; }

 private:
  void experts(core::DensePlan d) {
    using core::Axis;
    d.axis_order = {Axis::Tensor, Axis::Sharding, Axis::Pipeline, Axis::Data};
    if (d.expert > 1) d.axis_order.insert(d.axis_order.begin() + 1, Axis::Expert);
    for (d.expert_tensor = 1; d.expert_tensor <= d.tensor; ++d.expert_tensor) details(d);
  }

  void details(core::DensePlan d) {
    using Schedule = core::PipelineSchedule;
    // Selective recomputation and context parallelism are looked at where asked for.
    for (d.sharding_stage = 0; d.sharding_stage <= 3; ++d.sharding_stage) {
      for (d.microbatch = 1; d.microbatch <= case_.job.global_batch; ++d.microbatch) {
        if (case_.job.global_batch % (d.data_ways() * d.microbatch) != 0) continue;
        for (const bool sequence_parallel : {false, true}) {
          d.sequence_parallel = sequence_parallel;
          for (const auto recompute : {core::Recompute::None, core::Recompute::Full}) {
            d.recompute = recompute;
            for (const auto schedule :
                 {Schedule::OneFOneB, Schedule::GPipe, Schedule::Interleaved,
                  Schedule::ZeroBubbleH1, Schedule::ZeroBubble1p, Schedule::ZeroBubble2p}) {
              if (d.pipeline == 1 && schedule != Schedule::OneFOneB) continue;
              d.schedule = schedule;
              if (core::computed_from_durations(schedule) && !worth_computing(d)) continue;
              layers(d);
            }
          }
        }
      }
    }
  }

  bool worth_computing(const core::DensePlan& d) const {
    return d.recompute == core::Recompute::None &&
           core::microbatches(d, case_.job.global_batch) <= 2 * d.pipeline;
  }

  void layers(core::DensePlan d) {
    const int layers = case_.model.transformer->layers;
    const bool interleaved = d.schedule == core::PipelineSchedule::Interleaved;
    for (d.virtual_stages = 1; d.pipeline * d.virtual_stages <= layers; ++d.virtual_stages) {
      if ((d.virtual_stages > 1) != interleaved) continue;
      if (interleaved && layers % (d.pipeline * d.virtual_stages) != 0) continue;
      d.layers_per_stage = core::even_layers(layers, d.pipeline * d.virtual_stages);
      if (!recomputing(d) || d.virtual_stages > 1 || d.pipeline == 1) continue;
      const std::vector<int> levelled = estimator_.balanced_layers(d);
      if (levelled == d.layers_per_stage) continue;
      core::DensePlan other = d;
      other.layers_per_stage = levelled;
      recomputing(other);
    }
  }

  /// With any number of layers that recompute; false where the plan with all of them is not valid.
  bool recomputing(core::DensePlan d) {
    if (!judge(d)) return false;
    if (d.recompute == core::Recompute::None || d.virtual_stages > 1) return true;
    for (int layers = 1; layers < case_.model.transformer->layers; ++layers) {
      d.recompute_layers = layers;
      judge(d);
    }
    return true;
  }

  bool is_valid(const core::DensePlan& d) const {
    core::Plan plan;
    plan.dense = d;
    return !core::why_invalid(plan, case_.model, case_.job, devices_);
  }

  bool judge(core::DensePlan d) {
    if (core::computed_from_durations(d.schedule)) {
      // From the durations of the plan whose data ways share nothing.
      core::DensePlan alone = d;
      alone.schedule = core::PipelineSchedule::ZeroBubbleH1;
      alone.data = d.data_ways() / d.expert;
      alone.sharding = 1;
      alone.sharding_stage = 0;
      if (!is_valid(alone)) return false;
      d.pass_times = estimator_.pass_times(alone);
    }
    if (!is_valid(d)) return false;
    ++valid_;
    if (!estimator_.does_not_fit(d)) steps_[name_of(d)] = estimator_.estimate(d).step.value;
    return true;
  }

  const Case& case_;
  DenseEstimator estimator_;
  int devices_;
  std::map<std::string, double> steps_;
  std::size_t valid_ = 0;
};

constexpr int kCases = 24;

// All plans, their feasibility and their steps, to the last bit; and the best of them, found with
// bounds, on one thread and on three.
TEST(SearchProof, EqualsBruteForce) {
  Cases cases(1);
  std::size_t fitting = 0;
  std::size_t not_fitting = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case c = cases.draw();
    const BruteForce brute(c);
    SearchOptions all;
    all.keep = 1'000'000;
    const SearchResult found = search(c.model, c.cluster, c.job, all);
    std::map<std::string, double> steps;
    for (const RankedPlan& ranked : found.ranked) {
      steps[name_of(*ranked.plan.dense)] = ranked.estimate.step.value;
    }
    EXPECT_EQ(steps, brute.steps()) << "case " << i;
    EXPECT_LE(found.candidates, brute.valid()) << "case " << i;
    fitting += steps.size();
    not_fitting += found.do_not_fit;
    for (const int threads : {1, 3}) {
      SearchOptions one;
      one.keep = 1;
      one.threads = threads;
      const SearchResult best = search(c.model, c.cluster, c.job, one);
      ASSERT_EQ(best.ranked.empty(), steps.empty());
      if (steps.empty()) continue;
      EXPECT_EQ(name_of(*best.ranked[0].plan.dense), name_of(*found.ranked[0].plan.dense));
      EXPECT_EQ(best.ranked[0].estimate.step, found.ranked[0].estimate.step);
    }
  }
  EXPECT_GT(fitting, 1000U);
  EXPECT_GT(not_fitting, 100U);
}

// What is kept from plan to plan changes nothing: time and memory are the estimate's to the last bit,
// and no bound is above the time.
TEST(SearchProof, PlansTimedInARowAreTimedAsAlone) {
  Cases cases(2);
  for (int i = 0; i < 6; ++i) {
    const Case c = cases.draw();
    const DenseEstimator estimator(c.model, c.cluster, c.job);
    PlanTimer timer(estimator);
    for (const core::Plan& plan : dense_plans(c.model, c.cluster, c.job)) {
      timer.turn_to(*plan.dense);
      const Estimate alone = estimator.estimate(*plan.dense);
      EXPECT_EQ(timer.step(), alone.step) << core::describe(plan);
      EXPECT_EQ(timer.memory(), total(alone.memory)) << core::describe(plan);
      EXPECT_LE(timer.lower_bound().value, alone.step.value * (1 + 1e-12)) << core::describe(plan);
    }
  }
}

// ---- what must not change, or only for the better ------------------------------------------

/// Step of the best plan; infinite where none fits.
double best_step(const Case& c) {
  SearchOptions options;
  options.keep = 1;
  const SearchResult found = search(c.model, c.cluster, c.job, options);
  return found.ranked.empty() ? std::numeric_limits<double>::infinity()
                              : found.ranked[0].estimate.step.value;
}

template <class Change>
void expect_no_slower(unsigned seed, Change change) {
  Cases cases(seed);
  for (int i = 0; i < kCases; ++i) {
    const Case before = cases.draw();
    Case after = before;
    change(after.cluster.groups[0].type, after.cluster.network);
    EXPECT_LE(best_step(after), best_step(before) * (1 + 1e-12)) << "case " << i;
  }
}

TEST(SearchMetamorphic, FasterLinksInANodeNeverSlowTheBestPlan) {
  expect_no_slower(3,
                   [](core::NodeType& type, core::Network&) { type.device_link.bandwidth *= 3.0; });
}

TEST(SearchMetamorphic, AFasterNetworkNeverSlowsTheBestPlan) {
  expect_no_slower(
      4, [](core::NodeType& type, core::Network&) { type.network_card.bandwidth *= 3.0; });
}

TEST(SearchMetamorphic, LowerLatencyNeverSlowsTheBestPlan) {
  expect_no_slower(5, [](core::NodeType& type, core::Network& network) {
    type.device_link.latency *= 0.3;
    type.network_card.latency *= 0.3;
    network.hop_latency *= 0.3;
    type.device.launch *= 0.5;
  });
}

TEST(SearchMetamorphic, MoreMemoryNeverSlowsTheBestPlan) {
  expect_no_slower(6, [](core::NodeType& type, core::Network&) { type.device.memory *= 2.0; });
}

// Every rate doubled and every latency halved: half the time.
TEST(SearchMetamorphic, AMachineTwiceAsFastTakesHalfTheTime) {
  Cases cases(7);
  for (int i = 0; i < kCases; ++i) {
    const Case slow = cases.draw();
    Case fast = slow;
    core::NodeType& type = fast.cluster.groups[0].type;
    type.device.memory_bandwidth *= 2.0;
    for (auto& [precision, peak] : type.device.peak) peak *= 2.0;
    type.device.launch *= 0.5;
    type.device_link.bandwidth *= 2.0;
    type.device_link.latency *= 0.5;
    type.network_card.bandwidth *= 2.0;
    type.network_card.latency *= 0.5;
    fast.cluster.network.hop_latency *= 0.5;
    const double step = best_step(slow);
    if (std::isinf(step)) continue;
    EXPECT_NEAR(best_step(fast) / step, 0.5, 1e-9) << "case " << i;
  }
}

// Nodes are alike, so which of them bears which number is nothing to the plan: a cluster whose nodes
// are listed in several groups, in any order, has the same best plans.
TEST(SearchMetamorphic, RenumberingNodesChangesNothing) {
  Cases cases(8);
  for (int i = 0; i < kCases; ++i) {
    const Case one = cases.draw();
    Case other = one;
    const core::NodeGroup all = one.cluster.groups[0];
    other.cluster.groups.clear();
    for (int node = all.count; node-- > 0;) {
      core::NodeGroup single = all;
      single.count = 1;
      single.type.name += std::to_string(node);
      other.cluster.groups.push_back(single);
    }
    EXPECT_EQ(best_step(other), best_step(one)) << "case " << i;
  }
}

}  // namespace
}  // namespace orrery::costmodel

// What is read off a stage once and scaled, against the stage lowered as it is.

#include "costmodel/stage_profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/operator.h"
#include "costmodel/compute_cost.h"
#include "tests/costmodel/small_inputs.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

struct Case {
  std::string name;
  core::DensePlan plan;
  core::Cluster cluster;
};

/// Ranks that are GPUs with a host to issue their kernels.
core::Cluster gpu_cluster(int ranks) {
  core::Cluster cluster = cpu_cluster(ranks);
  cluster.groups[0].type.device.kind = core::DeviceKind::Gpu;
  cluster.groups[0].type.device.gap = core::Seconds(1e-6);
  return cluster;
}

/// Tensor, context and sharded stages with every kind of recomputation and attention.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, auto change) {
    core::DensePlan plan;
    change(plan);
    all.push_back({name, plan, cpu_cluster(plan.devices())});
    all.push_back({name + " on GPUs", plan, gpu_cluster(plan.devices())});
  };
  using Plan = core::DensePlan;
  const auto tensor = [](Plan& p) { p.tensor = 4; };
  add("plain", [](Plan&) {});
  add("tensor", tensor);
  add("sequence parallel", [&](Plan& p) { tensor(p), p.sequence_parallel = true; });
  add("full", [&](Plan& p) { tensor(p), p.recompute = core::Recompute::Full; });
  add("whole",
      [&](Plan& p) { tensor(p), p.recompute = core::Recompute::Full, p.recompute_whole = true; });
  add("one layer", [](Plan& p) { p.recompute = core::Recompute::Full, p.recompute_layers = 1; });
  add("selective", [&](Plan& p) {
    tensor(p), p.recompute = core::Recompute::Selective, p.attention = core::AttentionKind::Plain;
  });
  add("split", [&](Plan& p) { tensor(p), p.schedule = core::PipelineSchedule::ZeroBubbleH1; });
  add("split, sequence parallel", [&](Plan& p) {
    tensor(p), p.sequence_parallel = true, p.schedule = core::PipelineSchedule::ZeroBubbleH1;
  });
  add("zero 2", [](Plan& p) { p.sharding = 2, p.sharding_stage = 2; });
  add("zero 3", [&](Plan& p) { tensor(p), p.sharding = 2, p.sharding_stage = 3; });
  // Gradients, or parameters, take longer than everything else.
  for (const int stage : {2, 3}) {
    add("zero over slow links", [=](Plan& p) { p.sharding = 2, p.sharding_stage = stage; });
    for (auto slow = all.end() - 2; slow != all.end(); ++slow) {
      slow->cluster.groups[0].type.device_link.bandwidth = core::BytesPerSecond(2e7);
    }
  }
  for (const auto method : {core::ContextMethod::Ring, core::ContextMethod::AllToAll}) {
    add("context", [method](Plan& p) {
      p.context = 2, p.context_method = method;
      p.axis_order.insert(p.axis_order.begin() + 1, core::Axis::Context);
    });
  }
  return all;
}

/// How long an instruction takes, asked of the instruction itself.
Seconds duration_of(const core::Instruction& instruction, const core::Role& role,
                    const PlanGroups& groups, const core::Cluster& cluster, core::DType precision) {
  const FabricCost fabric = fabric_cost(cluster);
  if (instruction.stream == core::Stream::Host) return Seconds(0);
  if (const auto* compute = std::get_if<core::Compute>(&instruction.operation)) {
    return compute_time(*compute, cluster.node_type(0).device, precision);
  }
  if (const auto* collective = std::get_if<core::Collective>(&instruction.operation)) {
    return collective_time(collective->kind, collective->bytes,
                           groups.of(role.group_slots[collective->group.index()]), fabric);
  }
  const auto* send = std::get_if<core::Send>(&instruction.operation);
  const auto* receive = std::get_if<core::Receive>(&instruction.operation);
  const core::Channel channel = send != nullptr ? send->channel : receive->channel;
  if (channel != core::Channel::Context) return Seconds(0);
  return ring_hop_time(send != nullptr ? send->bytes : receive->bytes,
                       groups.of(core::GroupKind::Context).shared, fabric);
}

/// When the compute stream is done with each pass, every instruction after those of its stream and those
/// that it waits for. Gathers of parameters and sums of gradients, which go over the same links, hold up
/// the backward pass where together they take longer than all passes.
std::vector<Seconds> makespans(const core::Role& role, const PlanGroups& groups,
                               const core::Cluster& cluster, core::DType precision) {
  std::vector<Seconds> result;
  std::array<Seconds, core::kStreams> busy{};
  Seconds all;
  for (const core::Block* block : pass_blocks(role)) {
    std::array<Seconds, core::kStreams> free{};
    std::vector<Seconds> ends;
    for (const core::Instruction& instruction : block->instructions) {
      Seconds& stream = free[static_cast<std::size_t>(instruction.stream)];
      for (const int wait : instruction.waits) {
        stream = std::max(stream, ends[static_cast<std::size_t>(wait)]);
      }
      const Seconds duration = duration_of(instruction, role, groups, cluster, precision);
      stream += duration;
      ends.push_back(stream);
      busy[static_cast<std::size_t>(instruction.stream)] += duration;
    }
    result.push_back(free[static_cast<std::size_t>(core::Stream::Compute)]);
    all += result.back();
  }
  const auto of = [&](core::Stream stream) { return busy[static_cast<std::size_t>(stream)]; };
  result[1] += std::max(of(core::Stream::Gather) + of(core::Stream::Data) - all, Seconds(0));
  return result;
}

// The stage is lowered with the smallest microbatch and scaled; here it is lowered with the microbatch
// itself, and with four layers too (what is read off has up to three), and each pass replayed.
TEST(StageProfile, IsThatOfTheStageLoweredWithItsMicrobatch) {
  core::Job job = small_job();
  job.precision = core::DType::BFloat16;
  for (const core::Transformer& transformer : {small_gpt2(), small_llama()}) {
    const core::Model model{"small", transformer, std::nullopt};
    for (const Case& c : cases()) {
      const PlanGroups groups = GroupCosts(c.cluster).of(c.plan);
      for (const StagePlace ends :
           {StagePlace{true, true}, {true, false}, {false, false}, {false, true}}) {
        const StagePlace place = ends;
        const PassStructure structure(passes_structure_alone(c.plan), place, model, job);
        const StagePasses passes(passes_alone(c.plan), place, structure, model, job,
                                 c.cluster.node_type(0).device);
        for (const int microbatch : {1, 3, 96}) {
          const StageProfile profile =
              passes.profile(microbatch, c.plan.sharding, groups, fabric_cost(c.cluster));
          core::DensePlan plan = c.plan;
          plan.microbatch = microbatch;
          for (const int beyond : {1, 2, 4, 7}) {
            const int layers = profile.base + beyond;
            const core::Role role = lowered_stage(plan, ends, layers, model, job);
            const auto lowered = makespans(role, groups, c.cluster, job.precision);
            const PassTime* of_passes[] = {&profile.forward, &profile.backward,
                                           &profile.weight_grad};
            for (std::size_t i = 0; i < lowered.size(); ++i) {
              double device = of_passes[i]->makespan.device.at(layers).value;
              if (i == 1) device += profile.held_up(layers).value;
              EXPECT_NEAR(device / lowered[i].value, 1.0, 1e-9)
                  << c.name << " microbatch " << microbatch << " pass " << i << " layers "
                  << layers;
            }
          }
        }
      }
    }
  }
}

// To the last bit: the outline of a stage with k sequences, and that of a stage with one scaled by k.
TEST(PassOutline, ScalesToTheLastBit) {
  const core::Job job = small_job();
  const core::Model model{"small", small_gpt2(), std::nullopt};
  for (const Case& c : cases()) {
    const core::Device& device = c.cluster.node_type(0).device;
    const PlanGroups groups = GroupCosts(c.cluster).of(c.plan);
    const FabricCost fabric = fabric_cost(c.cluster);
    const ScaledStage smallest =
        scaled_stage(c.plan, {}, 3, model, job, lowered_stage(c.plan, {}, 3, model, job));
    for (const int scale : {2, 5, 64}) {
      core::DensePlan plan = c.plan;
      plan.microbatch = scale * smallest.microbatch;
      ScaledStage larger{plan.microbatch, lowered_stage(plan, {}, 3, model, job), {}};
      plan.microbatch *= 2;
      larger.buffers = scaled_buffers(larger.role, lowered_stage(plan, {}, 3, model, job));
      larger.sharding = c.plan.sharding;
      StageOutliner scaled(device, job.precision), lowered(device, job.precision);
      const StageOutline a = scaled.outline(smallest);
      const StageOutline b = lowered.outline(larger);
      const auto of_a = scaled.durations({scale, c.plan.sharding}, groups, fabric);
      const auto of_b = lowered.durations({1, c.plan.sharding}, groups, fabric);
      for (std::size_t i = 0; i < a.passes.size(); ++i) {
        const PassTiming x = timing_of(a.passes[i], of_a);
        const PassTiming y = timing_of(b.passes[i], of_b);
        EXPECT_EQ(x.makespan, y.makespan) << c.name;
        EXPECT_EQ(x.issued, y.issued) << c.name;
        EXPECT_EQ(x.compute, y.compute) << c.name;
        EXPECT_EQ(x.recompute, y.recompute) << c.name;
        EXPECT_EQ(x.ahead, y.ahead) << c.name;
        EXPECT_EQ(x.head, y.head) << c.name;
        EXPECT_EQ(x.second_layer, y.second_layer) << c.name;
      }
      const PassMemory m = scaled_pass_memory(smallest).at(scale);
      const PassMemory n = scaled_pass_memory(larger).at(1);
      EXPECT_EQ(m.forward.peak, n.forward.peak) << c.name;
      EXPECT_EQ(m.backward.peak, n.backward.peak) << c.name;
      EXPECT_EQ(m.weight_grad.peak, n.weight_grad.peak) << c.name;
      EXPECT_EQ(m.saved, n.saved) << c.name;
      EXPECT_EQ(m.kept, n.kept) << c.name;
      EXPECT_EQ(m.standing, n.standing) << c.name;
    }
  }
}

// Layers that recompute repeat themselves too: from stages of which two and three do to one of six.
TEST(StageProfile, IsAffineInTheLayersThatRecompute) {
  const core::Job job = small_job();
  const core::Model model{"small", small_gpt2(), std::nullopt};
  for (Case c : cases()) {
    if (core::splits_backward(c.plan.schedule)) continue;
    for (const auto recompute : {core::Recompute::Selective, core::Recompute::Full}) {
      c.plan.recompute = recompute;
      c.plan.recompute_whole = c.plan.recompute_whole && recompute == core::Recompute::Full;
      const PlanGroups groups = GroupCosts(c.cluster).of(c.plan);
      for (const StagePlace place : {StagePlace{}, {true, false}, {false, true}, {false, false}}) {
        std::vector<StageProfile> profiles;
        std::vector<StageMemory> memories;
        for (const int r : {2, 3, 6}) {
          c.plan.recompute_layers = r;
          const PassStructure structure(passes_structure_alone(c.plan), place, model, job);
          const StagePasses passes(passes_alone(c.plan), place, structure, model, job,
                                   c.cluster.node_type(0).device);
          profiles.push_back(passes.profile(4, c.plan.sharding, groups, fabric_cost(c.cluster)));
          memories.push_back(passes.memory(4));
        }
        const StageProfile made = further(profiles[0], profiles[1], 3);
        const StageMemory memory = further(memories[0], memories[1], 3);
        const StageProfile& lowered = profiles[2];
        for (const int layers : {7, 8, 9, 10, 15}) {
          const auto near = [&](Seconds a, Seconds b, const char* what) {
            EXPECT_NEAR(a.value, b.value, 1e-9 * lowered.passes(layers).value)
                << c.name << " " << what << " " << layers << " " << place.first << place.last
                << core::recompute_name(recompute);
          };
          near(made.forward.makespan.at(layers), lowered.forward.makespan.at(layers), "forward");
          near(made.backward_pass(layers), lowered.backward_pass(layers), "backward");
          near(made.passes(layers), lowered.passes(layers), "passes");
          near(made.device_passes(layers), lowered.device_passes(layers), "device");
          near(made.backward.recompute.at(layers), lowered.backward.recompute.at(layers), "again");
          near(made.waits(&Waits::tensor, layers), lowered.waits(&Waits::tensor, layers), "waits");
          // Which of the two is waited for where both are slow may change from layer to layer.
          const auto shared = [layers](const StageProfile& profile) {
            return profile.waits(&Waits::gather, layers) + profile.waits(&Waits::data, layers);
          };
          near(shared(made), shared(lowered), "sharing");
          for (const int layer : {0, 1, 4, 6}) {
            const StagePart part{StagePart::Kind::Layer, layer};
            near(made.gradients.before_end(part, layers),
                 lowered.gradients.before_end(part, layers), "gradients");
          }
          near(made.gradients.head.at(layers), lowered.gradients.head.at(layers), "head");
          near(made.ahead, lowered.ahead, "ahead");
          const PassMemory a = memory.at(layers);
          const PassMemory b = memories[2].at(layers);
          EXPECT_EQ(total(a.forward.peak), total(b.forward.peak)) << c.name << layers;
          EXPECT_EQ(total(a.backward.peak), total(b.backward.peak)) << c.name << layers;
          EXPECT_EQ(a.saved, b.saved) << c.name << layers;
          EXPECT_EQ(a.standing, b.standing) << c.name << layers;
        }
      }
    }
  }
}

// To the last bit: where slices are not padded, a stage lowered for two ranks that share has the passes
// of four.
TEST(PassOutline, HoldsForAnyNumberOfRanksThatShare) {
  const core::Job job = small_job();
  core::Model model{"small", small_gpt2(), std::nullopt};
  model.transformer->vocab = 128;
  const core::Cluster cluster = cpu_cluster(8);
  const FabricCost fabric = fabric_cost(cluster);
  for (const int stage : {2, 3}) {
    core::DensePlan two;
    two.sharding = 2;
    two.sharding_stage = stage;
    core::DensePlan four = two;
    four.sharding = 4;
    const auto stage_of = [&](const core::DensePlan& plan) {
      return scaled_stage(plan, {}, 3, model, job, lowered_stage(plan, {}, 3, model, job));
    };
    const PlanGroups groups = GroupCosts(cluster).of(four);
    StageOutliner of_two(cluster.node_type(0).device, job.precision);
    StageOutliner of_four(cluster.node_type(0).device, job.precision);
    const ScaledStage lowered = stage_of(four);
    ASSERT_EQ(stage_of(two).role.parameters.elements, lowered.role.parameters.elements)
        << "no padding";
    const StageOutline a = of_two.outline(stage_of(two));
    const StageOutline b = of_four.outline(lowered);
    const auto of_a = of_two.durations({1, 4}, groups, fabric);
    const auto of_b = of_four.durations({1, 4}, groups, fabric);
    for (std::size_t i = 0; i < a.passes.size(); ++i) {
      const PassTiming x = timing_of(a.passes[i], of_a);
      const PassTiming y = timing_of(b.passes[i], of_b);
      EXPECT_EQ(x.makespan, y.makespan);
      EXPECT_EQ(x.busy, y.busy);
      EXPECT_EQ(x.second_layer, y.second_layer);
    }
  }
}

// Input gradient 1 s, its sum over the tensor group 4 s, the weight's gradient 2 s, then what reads the
// sum 1 s; before them a recomputed sum of 8 s that nobody reads. Streams of their own: 8 | 8+4 | 1+2 in
// time, 13 s. In turn: recomputed 8, 8+1+2+4+1 = 16 s with all, 8+1+max(4, 2)+1 = 14 s without backward's.
TEST(PassTiming, CollectivesInTurnHoldUpWhatIsComputed) {
  const auto item = [](core::Stream stream, std::size_t action, std::uint32_t waits_end,
                       bool recomputes = false) {
    return PassItem{.stream = stream,
                    .recomputes = recomputes,
                    .action = action,
                    .waits_end = waits_end,
                    .completes = {}};
  };
  using core::Stream;
  const std::vector<core::Seconds> durations = {core::Seconds(8), core::Seconds(1),
                                                core::Seconds(4), core::Seconds(2)};
  PassOutline pass;
  pass.waits = {1, 2};
  pass.items = {item(Stream::Tensor, 0, 0, true), item(Stream::Compute, 1, 0),
                item(Stream::Tensor, 2, 1), item(Stream::Compute, 3, 1),
                item(Stream::Compute, 1, 2)};
  const auto makespan = [&](TensorBlocking blocking) {
    const PassTiming timing = timing_of(pass, durations, {.blocking = blocking});
    core::Seconds waits;
    for (const core::Seconds wait : timing.waits) waits += wait;
    EXPECT_EQ(timing.compute + waits, timing.makespan);
    return timing.makespan;
  };
  EXPECT_EQ(makespan(TensorBlocking::Nothing), core::Seconds(13));
  EXPECT_EQ(makespan(TensorBlocking::Recomputation), core::Seconds(14));
  // After the sum of 4 s the weight's gradient, then what reads the sum.
  EXPECT_EQ(makespan(TensorBlocking::Everything), core::Seconds(8 + 1 + 4 + 2 + 1));
}

// Computing 4 s and 6 s in a row. Communication on three streams at once, for 3, 5 and 8 s: in those 8 s
// 8/1.5 s of the 10 s are computed, what is left takes 10 - 8/1.5 s more.
TEST(PassTiming, WhatIsComputedBesideCommunicationTakesLonger) {
  using core::Stream;
  const std::vector<core::Seconds> durations = {
      core::Seconds(1), core::Seconds(2), core::Seconds(3), core::Seconds(4), core::Seconds(6)};
  const auto item = [](Stream stream, std::size_t action, std::uint32_t waits_end) {
    return PassItem{.stream = stream, .action = action, .waits_end = waits_end, .completes = {}};
  };
  PassOutline pass;
  pass.waits = {1};  // The second gather, for the first.
  pass.items = {item(Stream::Data, 0, 0),   item(Stream::Gather, 1, 0),  item(Stream::Data, 1, 0),
                item(Stream::Gather, 2, 1), item(Stream::Compute, 3, 1), item(Stream::Tensor, 3, 1),
                item(Stream::Tensor, 3, 1), item(Stream::Compute, 4, 1)};
  const PassTiming plain = timing_of(pass, durations);
  const PassTiming slower = timing_of(pass, durations, {.beside = 1.5});
  EXPECT_EQ(plain.makespan, core::Seconds(10));
  EXPECT_EQ(plain.interference, core::Seconds(0));
  EXPECT_DOUBLE_EQ(slower.makespan.value, 8 + (10 - 8 / 1.5));
  EXPECT_DOUBLE_EQ(slower.interference.value, 8 - 8 / 1.5);
  EXPECT_EQ(slower.compute, plain.compute);
}

// 1 s computed, summed for 6 s beside 2 s of computing that take 3 s; what reads the sum waits for it as
// it would without: only what is not hidden makes a pass longer.
TEST(PassTiming, WhatTakesLongerBehindALongerCollectiveCostsNothing) {
  using core::Stream;
  const std::vector<core::Seconds> durations = {core::Seconds(1), core::Seconds(6),
                                                core::Seconds(2)};
  PassOutline pass;
  pass.waits = {0, 1};
  pass.items = {PassItem{.stream = Stream::Compute, .action = 0, .waits_end = 0, .completes = {}},
                PassItem{.stream = Stream::Tensor, .action = 1, .waits_end = 1, .completes = {}},
                PassItem{.stream = Stream::Compute, .action = 2, .waits_end = 1, .completes = {}},
                PassItem{.stream = Stream::Compute, .action = 0, .waits_end = 2, .completes = {}}};
  const PassTiming plain = timing_of(pass, durations);
  const PassTiming slower = timing_of(pass, durations, {.beside = 1.5});
  EXPECT_EQ(plain.makespan, core::Seconds(8));
  EXPECT_EQ(slower.makespan, core::Seconds(8));
  EXPECT_EQ(slower.interference, core::Seconds(1));
  const auto tensor = static_cast<std::size_t>(core::SpanKind::TensorCommunication);
  EXPECT_EQ(plain.waits[tensor], core::Seconds(4));
  EXPECT_EQ(slower.waits[tensor], core::Seconds(3));
}

}  // namespace
}  // namespace orrery::costmodel

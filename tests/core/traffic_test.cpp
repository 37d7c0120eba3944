// What a step sends, against closed forms.

#include "core/network/traffic.h"

#include <gtest/gtest.h>

#include "core/lowering/lowering.h"

namespace orrery::core {
namespace {

constexpr double kSequences = 8, kTokens = 64, kHidden = 64, kLayers = 4;
constexpr double kFloat = 4;
/// One layer's activations over the whole batch.
constexpr double kActivations = kSequences * kTokens * kHidden * kFloat;

Cluster nodes_of(int devices, int count) {
  NodeType node;
  node.devices = devices;
  node.cores = devices;
  node.device_link = {Seconds(1e-6), BytesPerSecond(1e9)};
  node.network_cards = 1;
  node.network_card = {Seconds(1e-6), BytesPerSecond(1e9)};
  Cluster cluster{"cluster", {{node, count}}, {}};
  if (count > 1) cluster.network.kind = NetworkKind::Star;
  cluster.collectives.library = CollectiveLibrary::AllPairs;
  return cluster;
}

Traffic traffic_of(DensePlan dense, const Cluster& cluster) {
  Transformer t;
  t.layers = static_cast<int>(kLayers);
  t.hidden = static_cast<int>(kHidden);
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 256;
  t.max_positions = 64;
  if (dense.layers_per_stage.empty()) {
    dense.layers_per_stage = even_layers(t.layers, dense.pipeline * dense.virtual_stages);
  }
  Plan plan;
  plan.dense = dense;
  Job job;
  job.sequence = static_cast<int>(kTokens);
  job.global_batch = static_cast<int>(kSequences);
  job.steps = 1;
  const Program program = lower(plan, {"gpt", t, std::nullopt}, cluster, job);
  return mean_traffic(program, Topology(cluster));
}

double of(const std::array<Bytes, kSpanKinds>& bytes, SpanKind kind) {
  return bytes[static_cast<std::size_t>(kind)].value;
}

// Each member of n sends 2·(n−1)/n of an all-reduce's bytes; a layer has four of the activations,
// and the embedding (forward) and the head (backward) one each.
TEST(Traffic, OfATensorGroupStaysInItsNode) {
  const Traffic found = traffic_of({.tensor = 4}, nodes_of(4, 1));
  EXPECT_DOUBLE_EQ(total(found.between_nodes).value, 0);
  const double layers = (4 * kLayers) * kActivations * 2 * 3 / 4;
  const double tensor = of(found.within_node, SpanKind::TensorCommunication);
  EXPECT_GE(tensor, layers);
  EXPECT_LE(tensor, layers + 4 * kActivations * 2 * 3 / 4);
}

// Two nodes: of the four ranks that a member of an all-pairs collective over eight sends to outside,
// each gets as much as each of the three within.
TEST(Traffic, OfAGroupOverTwoNodesIsSplitAsItsMembersAre) {
  const Traffic found = traffic_of({.data = 8}, nodes_of(4, 2));
  const auto kind = SpanKind::DataCommunication;
  EXPECT_GT(of(found.within_node, kind), 0);
  EXPECT_NEAR(of(found.between_nodes, kind) / of(found.within_node, kind), 4.0 / 3, 1e-12);
}

// Two stages, one per node: the first sends activations, the second gradients, of the whole batch.
TEST(Traffic, OfAPipelineIsActivationsAndGradients) {
  const Traffic found = traffic_of({.pipeline = 2}, nodes_of(1, 2));
  EXPECT_DOUBLE_EQ(of(found.between_nodes, SpanKind::PipelineCommunication), kActivations);
  EXPECT_DOUBLE_EQ(total(found.within_node).value, 0);
}

// Four chunks on two stages: activations cross three times, gradients as often.
TEST(Traffic, OfAnInterleavedPipelineIsThatOfItsChunks) {
  const Traffic found =
      traffic_of({.pipeline = 2, .virtual_stages = 2, .schedule = PipelineSchedule::Interleaved},
                 nodes_of(1, 2));
  EXPECT_DOUBLE_EQ(of(found.between_nodes, SpanKind::PipelineCommunication), 3 * kActivations);
}

}  // namespace
}  // namespace orrery::core

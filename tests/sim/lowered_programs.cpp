#include "tests/sim/lowered_programs.h"

#include <optional>
#include <string>

#include "core/lowering/lowering.h"

namespace orrery::sim {

using namespace core::literals;
using core::Durations;
using core::Program;
using core::Seconds;

Program lowered_gpt2(core::DensePlan dense, int layers, int microbatches,
                     const core::Cluster& cluster) {
  core::Transformer t;
  t.family = core::ModelFamily::Gpt2;
  t.layers = layers;
  t.hidden = 64;
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 250;
  t.max_positions = 32;
  t.qkv_bias = t.linear_bias = t.tied_embeddings = true;
  core::Job job;
  job.sequence = 32;
  job.global_batch = microbatches * dense.microbatch * dense.data_ways();
  job.clip_norm = 1.0;
  dense.sharding_stage = dense.sharding > 1 ? 1 : 0;
  dense.layers_per_stage = core::even_layers(layers, dense.pipeline * dense.virtual_stages);
  core::Plan plan;
  plan.dense = dense;
  return core::lower(plan, {"small", t, std::nullopt}, cluster, job);
}

Program lowered_deepfm(int workers, int servers, const core::Cluster& cluster) {
  core::ClickThrough c;
  c.dense_features = 13;
  c.tables = {{.name = "hash", .rows = 5200, .dim = 8, .lookups_per_sample = 26}};
  c.mlp = {64, 32};
  core::Job job;
  job.global_batch = 48;
  job.optimizer.kind = core::OptimizerKind::Adam;
  job.sparse_optimizer = core::Optimizer{.kind = core::OptimizerKind::AdaGrad};
  core::Plan plan;
  plan.sparse = core::SparsePlan{.workers = workers, .servers = servers};
  return core::lower(plan, {"deepfm", std::nullopt, c}, cluster, job);
}

Durations uniform_durations(const Program& program, Seconds forward, Seconds backward,
                            Seconds weight_grad) {
  const auto time_of = [&](const std::string& block) -> std::optional<Seconds> {
    // Of several chunks, each block's name ends in the chunk's number.
    if (block.rfind("forward", 0) == 0) return forward;
    if (block.rfind("backward", 0) == 0 || block.rfind("input grad", 0) == 0) return backward;
    if (block.rfind("weight grad", 0) == 0) return weight_grad;
    return std::nullopt;
  };
  Durations durations = core::zero_durations(program);
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    const core::Role& role = program.roles[r];
    for (std::size_t b = 0; b < role.blocks.size(); ++b) {
      const auto time = time_of(role.blocks[b].name);
      if (!time) continue;
      // All of it on the compute stream's first instruction that is neither load nor communication.
      const auto& instructions = role.blocks[b].instructions;
      for (std::size_t i = 0; i < instructions.size(); ++i) {
        if (instructions[i].stream != core::Stream::Compute) continue;
        durations.by_instruction[r][b][i] = *time;
        break;
      }
    }
  }
  return durations;
}

Durations varied_durations(const Program& program, Seconds scale) {
  Durations durations = core::zero_durations(program);
  unsigned state = 1;
  for (std::size_t r = 0; r < program.roles.size(); ++r) {
    const core::Role& role = program.roles[r];
    for (std::size_t b = 0; b < role.blocks.size(); ++b) {
      for (std::size_t i = 0; i < role.blocks[b].instructions.size(); ++i) {
        state = state * 1664525u + 1013904223u;  // Numerical Recipes' linear congruence.
        if (!std::holds_alternative<core::Compute>(role.blocks[b].instructions[i].operation)) {
          continue;
        }
        durations.by_instruction[r][b][i] = scale * (1.0 + (state >> 8) / 16777216.0);
      }
    }
  }
  return durations;
}

core::Cluster gpu_cluster(int nodes, int devices, int cards) {
  core::NodeType type;
  type.name = "gpus";
  type.devices = devices;
  type.device_link = {3.0_us, 200.0_GBps};
  type.network_cards = cards;
  type.network_card = {2.0_us, 25.0_GBps};
  core::Cluster cluster;
  cluster.name = "gpus";
  cluster.groups = {{type, nodes}};
  cluster.network = {core::NetworkKind::FatTree, 2, 2.0, 0.5_us, 0.9};
  return cluster;
}

core::Cluster cpu_node(int ranks) {
  core::NodeType type;
  type.name = "cpus";
  type.devices = ranks;
  type.cores = 2;
  type.fabric = core::NodeFabric::Memory;
  type.device.kind = core::DeviceKind::Cpu;
  type.device.memory_bandwidth = 10.0_GBps;
  type.device_link = {5.0_us, 8.0_GBps};
  core::Cluster cluster;
  cluster.name = "cpus";
  cluster.groups = {{type, 1}};
  return cluster;
}

}  // namespace orrery::sim

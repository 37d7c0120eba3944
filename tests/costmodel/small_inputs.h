#pragma once
// Models, clusters, jobs and plans that the cost model's tests share.

#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"

namespace orrery::costmodel {

inline core::Transformer small_gpt2() {
  core::Transformer t;
  t.family = core::ModelFamily::Gpt2;
  t.layers = 8;
  t.hidden = 64;
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 250;
  t.max_positions = 32;
  t.qkv_bias = t.linear_bias = t.tied_embeddings = true;
  return t;
}

inline core::Transformer small_llama() {
  core::Transformer t = small_gpt2();
  t.family = core::ModelFamily::Llama;
  t.normalization = core::Normalization::RmsNorm;
  t.activation = core::ActivationKind::SwiGlu;
  t.position = core::PositionKind::Rotary;
  t.vocab = 1024;
  t.qkv_bias = t.linear_bias = t.tied_embeddings = false;
  return t;
}

/// Four experts, of which each token has two.
inline core::Transformer small_mixtral() {
  core::Transformer t = small_llama();
  t.family = core::ModelFamily::Mixtral;
  t.experts = 4;
  t.experts_per_token = 2;
  return t;
}

inline core::Job small_job() {
  core::Job job;
  job.sequence = 32;
  job.global_batch = 16;
  job.clip_norm = 1.0;
  job.steps = 1;
  return job;
}

/// One node of CPU ranks without contention between them.
inline core::Cluster cpu_cluster(int ranks) {
  core::NodeType node;
  node.name = "host";
  node.device.name = "core";
  node.device.kind = core::DeviceKind::Cpu;
  node.device.memory = core::Bytes(16e9);
  node.device.memory_bandwidth = core::BytesPerSecond(20e9);
  node.device.peak[core::DType::Float32] = core::FlopsPerSecond(1e11);
  node.device.peak[core::DType::BFloat16] = core::FlopsPerSecond(2e11);
  node.device.gemm = {.ceiling = 0.9, .half_m = 16, .half_n = 16, .half_k = 32};
  node.device.launch = core::Seconds(2e-6);
  node.devices = ranks;
  node.cores = ranks;
  node.fabric = core::NodeFabric::Switch;
  node.device_link = {core::Seconds(1e-6), core::BytesPerSecond(10e9)};
  core::Cluster cluster;
  cluster.name = "cpus";
  cluster.groups = {{node, 1}};
  return cluster;
}

/// Over data, sharding, tensor and pipeline, uneven stages, all schedules, few and many
/// microbatches, recompute none and full. At most 8 ranks; `layers` at least 8.
inline std::vector<core::Plan> small_plans(int layers) {
  struct Degrees {
    int data, sharding, tensor, pipeline, microbatch;
  };
  std::vector<core::Plan> plans;
  for (const Degrees d : std::vector<Degrees>{{1, 1, 1, 1, 1},
                                              {1, 1, 1, 1, 4},
                                              {2, 1, 1, 1, 2},
                                              {1, 4, 1, 1, 1},
                                              {1, 1, 2, 1, 4},
                                              {1, 1, 1, 2, 2},
                                              {1, 1, 1, 4, 1},
                                              {1, 1, 1, 4, 8},
                                              {1, 1, 1, 4, 16},
                                              {2, 1, 2, 2, 1},
                                              {1, 2, 2, 2, 2},
                                              {1, 1, 4, 2, 4}}) {
    for (const auto schedule : {core::PipelineSchedule::GPipe, core::PipelineSchedule::OneFOneB}) {
      for (const auto recompute : {core::Recompute::None, core::Recompute::Full}) {
        core::DensePlan dense;
        dense.data = d.data;
        dense.sharding = d.sharding;
        dense.sharding_stage = d.sharding > 1 ? 1 : 0;
        dense.tensor = d.tensor;
        dense.pipeline = d.pipeline;
        dense.microbatch = d.microbatch;
        dense.schedule = schedule;
        dense.recompute = recompute;
        dense.layers_per_stage = core::even_layers(layers, d.pipeline);
        if (d.pipeline == 4) {  // Uneven: one layer in the first stage.
          dense.layers_per_stage[0] -= 1;
          dense.layers_per_stage[1] += 1;
        }
        core::Plan plan;
        plan.dense = dense;
        plans.push_back(plan);
      }
    }
  }
  const core::PassTimes times{core::Seconds(20e-6), core::Seconds(22e-6), core::Seconds(17e-6),
                              core::Seconds(1e-6)};
  for (const Degrees d : std::vector<Degrees>{
           {1, 1, 1, 2, 1}, {1, 1, 1, 2, 4}, {1, 1, 1, 4, 1}, {2, 1, 1, 2, 1}, {1, 1, 2, 4, 1}}) {
    core::DensePlan dense;
    dense.data = d.data;
    dense.tensor = d.tensor;
    dense.pipeline = d.pipeline;
    dense.microbatch = d.microbatch;
    const auto add = [&](core::PipelineSchedule schedule, int chunks, int unevenness) {
      core::Plan plan;
      plan.dense = dense;
      plan.dense->schedule = schedule;
      plan.dense->virtual_stages = chunks;
      plan.dense->layers_per_stage = core::even_layers(layers, d.pipeline * chunks);
      plan.dense->layers_per_stage[0] -= unevenness;
      plan.dense->layers_per_stage[1] += unevenness;
      const bool computed = schedule == core::PipelineSchedule::ZeroBubble1p ||
                            schedule == core::PipelineSchedule::ZeroBubble2p;
      if (computed) plan.dense->pass_times = times;
      plans.push_back(plan);
    };
    add(core::PipelineSchedule::Interleaved, 2, d.pipeline == 2 ? 1 : 0);
    add(core::PipelineSchedule::ZeroBubbleH1, 1, 0);
    add(core::PipelineSchedule::ZeroBubble1p, 1, 1);
    add(core::PipelineSchedule::ZeroBubble2p, 1, 0);
  }
  return plans;
}

}  // namespace orrery::costmodel

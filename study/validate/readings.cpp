#include "study/validate/readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check/plan_check.h"
#include "core/lowering/pipeline_schedule.h"
#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"

namespace orrery::study {
namespace {

using core::DensePlan;

/// The columns without which a row says too little, where one is empty.
std::string missing_column(const MeasuredStep& s) {
  const std::pair<const char*, bool> needed[] = {
      {"layers", s.layers.has_value()},     {"hidden", s.hidden.has_value()},
      {"vocab", s.vocab.has_value()},       {"seq", s.sequence.has_value()},
      {"devices", s.devices.has_value()},   {"tensor", s.tensor.has_value()},
      {"pipeline", s.pipeline.has_value()}, {"global_batch", s.global_batch.has_value()},
      {"step_time_s", s.step.has_value()},  {"precision", s.precision.has_value()}};
  for (const auto& [column, there] : needed) {
    if (!there) return column;
  }
  return {};
}

/// The values an empty column may have, and those of a filled one.
template <class T>
std::vector<T> values(const std::optional<T>& known, std::vector<T> possible) {
  if (known) return {*known};
  return possible;
}

/// What the readings of one row are made of: every open column with its values.
struct OpenColumns {
  std::vector<int> heads, microbatch, virtual_stages, sharding_stage;
  std::vector<core::Recompute> recompute;
  std::vector<core::AttentionKind> attention;
  std::vector<std::optional<core::BytesPerSecond>> network;
  std::vector<std::string> names;
};

int data_ways(const MeasuredStep& s) {
  const int others = *s.tensor * *s.pipeline * s.context.value_or(1);
  return s.data.value_or(std::max(1, *s.devices / others));
}

/// Head sizes of 64 and 128 cover nearly all published models.
std::vector<int> possible_heads(const MeasuredStep& s) {
  std::vector<int> heads;
  for (const int size : {64, 128}) {
    if (*s.hidden % size == 0 && (*s.hidden / size) % *s.tensor == 0) {
      heads.push_back(*s.hidden / size);
    }
  }
  return heads;
}

std::vector<int> possible_microbatches(const MeasuredStep& s) {
  std::vector<int> sizes;
  const int per_way = *s.global_batch / data_ways(s);
  for (int b = 1; b <= std::min(per_way, 64); b *= 2) {
    if (per_way % b == 0) sizes.push_back(b);
  }
  return sizes;
}

std::vector<int> possible_virtual_stages(const MeasuredStep& s) {
  if (*s.pipeline == 1 || s.schedule == core::PipelineSchedule::OneFOneB) return {1};
  std::vector<int> counts;
  for (int v = 1; v <= 12; ++v) {
    const bool interleaved_one = v == 1 && s.schedule == core::PipelineSchedule::Interleaved;
    if (*s.layers % (*s.pipeline * v) == 0 && !interleaved_one) counts.push_back(v);
  }
  return counts.empty() ? std::vector<int>{1} : counts;
}

OpenColumns open_columns(const MeasuredStep& s) {
  using core::AttentionKind;
  using core::Recompute;
  OpenColumns open;
  const bool heads_known = s.heads && *s.hidden % *s.heads == 0;
  open.heads = heads_known ? std::vector<int>{*s.heads} : possible_heads(s);
  open.microbatch = values(s.microbatch, possible_microbatches(s));
  open.virtual_stages = values(s.virtual_stages, possible_virtual_stages(s));
  open.sharding_stage = values(s.sharding_stage, {0, 1});
  open.recompute = values(s.recompute, {Recompute::None, Recompute::Selective, Recompute::Full});
  open.attention = values(s.attention, {AttentionKind::Plain, AttentionKind::Flash});
  open.network = {s.node_network};
  const bool several_nodes = *s.devices > s.devices_per_node.value_or(8);
  if (!s.node_network && several_nodes) {
    // From one 100 Gbit/s card to what the machine's own nodes have.
    open.network.emplace_back(core::BytesPerSecond(12.5e9));
  }
  const std::pair<const char*, std::size_t> columns[] = {
      {"heads", open.heads.size()},
      {"micro_batch", open.microbatch.size()},
      {"virtual_stages", open.virtual_stages.size()},
      {"sharding_stage", open.sharding_stage.size()},
      {"recompute", open.recompute.size()},
      {"attention", open.attention.size()},
      {"node_network_gbit", open.network.size()}};
  for (const auto& [name, count] : columns) {
    if (count > 1) open.names.emplace_back(name);
  }
  return open;
}

core::Model model_of(const MeasuredStep& s, int heads) {
  core::Transformer t;
  const bool llama = s.architecture == "llama" || s.gated_mlp;
  t.family = llama ? core::ModelFamily::Llama : core::ModelFamily::Gpt2;
  t.layers = *s.layers;
  t.hidden = *s.hidden;
  t.heads = heads;
  t.kv_heads = s.heads == heads ? s.kv_heads.value_or(heads) : heads;
  t.head_dim = *s.hidden / heads;
  t.ffn = s.ffn.value_or(4 * *s.hidden);
  t.vocab = *s.vocab;
  t.max_positions = *s.sequence;
  t.normalization = llama ? core::Normalization::RmsNorm : core::Normalization::LayerNorm;
  t.activation = s.gated_mlp ? core::ActivationKind::SwiGlu : core::ActivationKind::GeluTanh;
  t.position = llama ? core::PositionKind::Rotary : core::PositionKind::Learned;
  t.qkv_bias = t.linear_bias = !llama;
  t.tied_embeddings = s.tied_embeddings;
  t.experts = s.experts;
  t.experts_per_token = s.experts_per_token;
  return {.name = s.model, .transformer = t, .click_through = std::nullopt};
}

core::Job job_of(const MeasuredStep& s) {
  core::Job job;
  job.sequence = *s.sequence;
  job.global_batch = *s.global_batch;
  job.precision = *s.precision;
  job.clip_norm = 1.0;
  job.steps = 1;
  return job;
}

void set_schedule(DensePlan& plan, const MeasuredStep& s, int virtual_stages) {
  plan.virtual_stages = virtual_stages;
  plan.schedule = s.schedule.value_or(core::PipelineSchedule::OneFOneB);
  if (virtual_stages > 1 && plan.schedule == core::PipelineSchedule::OneFOneB) {
    plan.schedule = core::PipelineSchedule::Interleaved;
  }
}

DensePlan plan_of(const MeasuredStep& s, int sharding_stage, int virtual_stages) {
  DensePlan plan;
  plan.tensor = *s.tensor;
  plan.pipeline = *s.pipeline;
  plan.context = s.context.value_or(1);
  plan.expert = s.expert.value_or(1);
  plan.sequence_parallel = s.sequence_parallel && plan.tensor > 1;
  const int ways = data_ways(s);
  const bool sharded = sharding_stage > 0 && ways > 1;
  plan.sharding_stage = sharded ? sharding_stage : 0;
  plan.sharding = sharded ? ways : 1;
  plan.data = sharded ? 1 : ways;
  set_schedule(plan, s, virtual_stages);
  plan.layers_per_stage = core::even_layers(*s.layers, plan.pipeline * plan.virtual_stages);
  plan.axis_order = {core::Axis::Tensor, core::Axis::Context, core::Axis::Sharding,
                     core::Axis::Data, core::Axis::Pipeline};
  return plan;
}

/// Gives a schedule that is computed from durations those that are predicted for the plan.
void predict_pass_times(Reading& reading) {
  DensePlan& plan = *reading.plan.dense;
  plan.pass_times.reset();
  if (!core::computed_from_durations(plan.schedule)) return;
  core::Plan split = reading.plan;
  split.dense->schedule = core::PipelineSchedule::ZeroBubbleH1;
  const int devices = reading.cluster.devices();
  if (core::why_invalid(split, reading.model, reading.job, devices)) return;
  const costmodel::DenseEstimator estimator(reading.model, reading.cluster, reading.job);
  plan.pass_times = estimator.pass_times(*split.dense);
}

Readings skipped(std::string why) {
  Readings result;
  result.skipped = std::move(why);
  return result;
}

/// The machine's device as the framework drives it.
core::Device driven_by(const Framework& framework, core::Device device) {
  device.launch = framework.launch.value_or(device.launch);
  core::AttentionEfficiency attention = costmodel::attention_efficiency(device);
  attention.forward *= framework.flash_speed;
  attention.backward *= framework.flash_speed;
  device.attention = attention;
  return device;
}

/// Every combination of the open columns.
std::vector<Reading> combinations(const MeasuredStep& s, const OpenColumns& open, Machine machine,
                                  const Framework& framework) {
  machine.node.device = driven_by(framework, machine.node.device);
  std::vector<Reading> all;
  const int per_node = s.devices_per_node.value_or(machine.node.devices);
  for (const auto& network : open.network) {
    const core::Cluster cluster = cluster_of(machine, *s.devices, per_node, network);
    for (const int heads : open.heads) {
      const core::Model model = model_of(s, heads);
      for (const int stage : open.sharding_stage) {
        for (const int chunks : open.virtual_stages) {
          for (const int microbatch : open.microbatch) {
            for (const auto recompute : open.recompute) {
              for (const auto attention : open.attention) {
                if (all.size() == kMostReadings) return all;
                Reading reading{model, cluster, job_of(s), {}};
                DensePlan plan = plan_of(s, stage, chunks);
                plan.microbatch = microbatch;
                plan.recompute = recompute;
                plan.attention = attention;
                plan.overlap_gradients = framework.overlap_gradients || stage > 1;
                plan.recompute_whole =
                    framework.recompute_whole && plan.recompute == core::Recompute::Full;
                reading.plan.dense = plan;
                all.push_back(std::move(reading));
              }
            }
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

Readings readings_of(const MeasuredStep& s, const Conventions& conventions) {
  if (const std::string column = missing_column(s); !column.empty()) {
    return skipped("no " + column);
  }
  const auto machine = conventions.machines.find(s.device);
  if (machine == conventions.machines.end())
    return skipped("no machine file for device " + s.device);
  const OpenColumns open = open_columns(s);
  const Framework framework = framework_of(conventions.frameworks, s.framework);
  Readings result;
  std::string why;
  for (Reading& reading : combinations(s, open, machine->second, framework)) {
    predict_pass_times(reading);
    if (auto reason = core::why_invalid(reading.plan, reading.model, reading.job,
                                        reading.cluster.devices())) {
      why = *reason;
      continue;
    }
    result.readings.push_back(std::move(reading));
  }
  if (result.readings.empty()) return skipped(why.empty() ? "no reading of it is possible" : why);
  result.open = open.names;
  return result;
}

}  // namespace orrery::study

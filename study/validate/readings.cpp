#include "study/validate/readings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
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
  std::vector<Machine> machines;
  std::vector<Framework> frameworks;
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

/// Powers of two, of which at least as many as there are stages make up a batch: fewer would leave
/// stages without work throughout.
std::vector<int> possible_microbatches(const MeasuredStep& s) {
  std::vector<int> sizes;
  const int per_way = *s.global_batch / data_ways(s);
  for (int b = 1; b <= std::min(per_way, 64); b *= 2) {
    if (per_way % b == 0 && (b == 1 || per_way / b >= *s.pipeline)) sizes.push_back(b);
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

/// The machine as it is known, and as it may be as well.
std::vector<Machine> possible_machines(const Machine& machine, bool several_nodes,
                                       std::vector<std::string>& names) {
  std::vector<Machine> all = {machine};
  const auto add = [&](const char* name, const auto& change) {
    const std::vector<Machine> before = all;
    for (Machine other : before) {
      change(other);
      all.push_back(std::move(other));
    }
    names.emplace_back(name);
  };
  if (machine.other_network_efficiency && several_nodes) {
    add("network efficiency",
        [&](Machine& m) { m.network.efficiency = *machine.other_network_efficiency; });
  }
  if (machine.other_gemm) {
    add("gemm efficiency", [&](Machine& m) { m.node.device.gemm = *machine.other_gemm; });
  }
  return all;
}

/// The framework as it is known, and as it may be as well.
std::vector<Framework> possible_frameworks(const Framework& framework,
                                           std::vector<std::string>& names) {
  std::vector<Framework> all = {framework};
  const auto add = [&](const char* name, const auto& change) {
    const std::vector<Framework> before = all;
    for (Framework other : before) {
      change(other);
      all.push_back(std::move(other));
    }
    names.emplace_back(name);
  };
  if (framework.least_launch) {
    add("launch", [](Framework& f) { f.launch = f.least_launch; });
  }
  if (framework.may_fuse) add("fused kernels", [](Framework& f) { f.eager = true; });
  if (framework.maybe_half_gradients) {
    add("gradient precision", [](Framework& f) { f.half_gradients = true; });
  }
  return all;
}

OpenColumns open_columns(const MeasuredStep& s, const Machine& machine,
                         const Framework& framework) {
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
    // From the least that nodes of 8 have here (bigscience: 4 cards of 100 Gbit/s) to the machine's own.
    open.network.emplace_back(core::BytesPerSecond(50e9));
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
  open.machines = possible_machines(machine, several_nodes, open.names);
  open.frameworks = possible_frameworks(framework, open.names);
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

core::Job job_of(const MeasuredStep& s, const Framework& framework) {
  core::Job job;
  job.sequence = *s.sequence;
  job.global_batch = *s.global_batch;
  job.precision = *s.precision;
  if (framework.half_gradients && *s.precision != core::DType::Float32) {
    const bool own = *s.precision == core::DType::Float16;
    if (own || framework.maybe_half_gradients) {
      job.gradient_precision = own ? core::DType::Float16 : core::DType::BFloat16;
    }
  }
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

void set_recompute(DensePlan& plan, core::Recompute recompute, const Framework& framework) {
  const bool halves = recompute == core::Recompute::Selective && framework.selective_halves &&
                      plan.virtual_stages == 1;
  plan.recompute = halves ? core::Recompute::Full : recompute;
  plan.recompute_whole = framework.recompute_whole && plan.recompute == core::Recompute::Full;
  plan.recompute_layers.reset();
  if (halves) {
    plan.recompute_layers = (plan.layers_per_stage.front() + 1) / 2;
  }
}

DensePlan plan_of(const MeasuredStep& s, const Framework& framework, int sharding_stage,
                  int virtual_stages) {
  DensePlan plan;
  plan.tensor = *s.tensor;
  plan.pipeline = *s.pipeline;
  plan.context = s.context.value_or(1);
  if (s.experts > 1) {
    plan.expert = s.expert.value_or(1);
    plan.expert_tensor = plan.tensor;
    plan.expert_capacity =
        1.0;  // Without dropping, loads as even as routers are trained to make them.
  }
  plan.sequence_parallel = s.sequence_parallel && plan.tensor > 1;
  const int ways = data_ways(s) / plan.expert;
  const bool sharded = sharding_stage > 0 && ways * plan.expert > 1;
  plan.sharding_stage = sharded ? sharding_stage : 0;
  plan.sharding = sharded ? ways : 1;
  plan.data = sharded ? 1 : ways;
  set_schedule(plan, s, virtual_stages);
  const int stages = plan.pipeline * plan.virtual_stages;
  plan.layers_per_stage = framework.uneven_stages == UnevenStages::Filled
                              ? filled_layers(*s.layers, stages)
                              : core::even_layers(*s.layers, stages);
  plan.overlap_gradients = framework.overlap_gradients || sharding_stage > 1;
  plan.axis_order = {core::Axis::Tensor,   core::Axis::Context, core::Axis::Expert,
                     core::Axis::Sharding, core::Axis::Data,    core::Axis::Pipeline};
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
  const costmodel::DenseEstimator estimator(reading.model, reading.cluster, reading.job,
                                            reading.options);
  plan.pass_times = estimator.pass_times(*split.dense);
}

Readings skipped(std::string why) {
  Readings result;
  result.skipped = std::move(why);
  return result;
}

/// Bytes that an element goes through in an eager normalisation or rotation in half precision, and in
/// one kernel each, as core::work_of() counts them.
/// @source torchtitan/models/norms.py, RMSNorm: to float (6), x·x (8), mean (4), x·rsqrt (8), back (6),
///         · weight (4); backwards, by the derivative of each, 84; apply_rotary_emb: to float (6), complex
///         product (8), back (6)
void run_eagerly(core::Device& device) {
  const core::BytesPerSecond streaming = device.memory_bandwidth * device.memory_efficiency;
  const auto set = [&](const char* op, int kernels, double fused, double eager) {
    device.operators[op] = {device.gap * kernels, streaming * (fused / eager)};
  };
  set("normalize", 6, 4, 36);
  set("normalize_grad", 14, 8, 84);
  set("rotate", 6, 4, 20);
}

/// The machine's device as the framework drives it.
core::Device driven_by(const Framework& framework, const Machine& machine) {
  core::Device device = machine.node.device;
  device.launch = framework.launch.value_or(device.launch);
  if (framework.blocking_launches) device.gap = device.launch;
  if (framework.eager) run_eagerly(device);
  core::AttentionEfficiency attention = costmodel::attention_efficiency(device);
  if (framework.flash2 && machine.flash2) {
    attention.forward = attention.backward = *machine.flash2;
  }
  attention.forward *= framework.flash_speed;
  attention.backward *= framework.flash_speed;
  device.attention = attention;
  return device;
}

/// Calls use(machine, framework, cluster) for every machine and framework that it may have been.
template <class Use>
void for_each_setting(const MeasuredStep& s, const OpenColumns& open, Use use) {
  for (const Framework& framework : open.frameworks) {
    for (Machine machine : open.machines) {
      machine.node.device = driven_by(framework, machine);
      // The device idles while a collective is issued, too.
      if (framework.blocking_launches) machine.collectives.base += machine.node.device.launch;
      const int per_node = s.devices_per_node.value_or(machine.node.devices);
      for (const auto& network : open.network) {
        use(framework, machine, cluster_of(machine, *s.devices, per_node, network));
      }
    }
  }
}

/// Calls use(plan) for every plan that it may have been.
template <class Use>
void for_each_plan(const MeasuredStep& s, const OpenColumns& open, const Framework& framework,
                   Use use) {
  for (const int stage : open.sharding_stage) {
    for (const int chunks : open.virtual_stages) {
      DensePlan plan = plan_of(s, framework, stage, chunks);
      for (const int microbatch : open.microbatch) {
        plan.microbatch = microbatch;
        for (const auto recompute : open.recompute) {
          set_recompute(plan, recompute, framework);
          for (const auto attention : open.attention) {
            plan.attention = attention;
            use(plan);
          }
        }
      }
    }
  }
}

/// Every combination of the open columns.
std::vector<Reading> combinations(const MeasuredStep& s, const OpenColumns& open) {
  std::vector<Reading> all;
  for_each_setting(
      s, open, [&](const Framework& framework, const Machine&, const core::Cluster& cluster) {
        costmodel::EstimateOptions options;
        options.messages_take_turns = framework.messages_take_turns;
        options.messages_split = framework.messages_split;
        if (framework.recompute_whole) {
          options.passes.blocking = costmodel::TensorBlocking::Recomputation;
        }
        if (framework.blocking_tensor)
          options.passes.blocking = costmodel::TensorBlocking::Everything;
        for (const int heads : open.heads) {
          const core::Model model = model_of(s, heads);
          for_each_plan(s, open, framework, [&](const DensePlan& plan) {
            if (all.size() == kMostReadings) return;
            all.push_back({model, cluster, job_of(s, framework), {}, options});
            all.back().plan.dense = plan;
            const double element = core::dtype_bytes(*s.precision);
            if (plan.sharding > 1) {
              all.back().more_memory = core::Bytes(framework.bucket_elements * element);
            }
            if (*s.precision == core::DType::BFloat16) {
              all.back().gradient_copies = framework.bfloat16_copies;
            }
          });
        }
      });
  return all;
}

}  // namespace

Readings readings_of(const MeasuredStep& s, const Conventions& conventions) {
  if (s.model.find("LoRA") != std::string::npos) {
    return skipped("low-rank adapters: most weights have no gradients, which no plan says");
  }
  if (!s.architecture.empty() && s.architecture != "gpt" && s.architecture != "llama") {
    return skipped(
        fmt::format("no model of architecture \"{}\"; there are gpt and llama", s.architecture));
  }
  if (const std::string column = missing_column(s); !column.empty()) {
    return skipped("no " + column);
  }
  const Machine* machine = machine_of(conventions.machines, s);
  if (machine == nullptr) return skipped("no machine file for device " + s.device);
  const OpenColumns open = open_columns(s, *machine, framework_of(conventions.frameworks, s));
  Readings result;
  std::string why;
  for (Reading& reading : combinations(s, open)) {
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

std::vector<std::string> doubts_about(const std::vector<MeasuredStep>& steps,
                                      const Conventions& conventions) {
  std::vector<std::string> warnings;
  std::set<std::string> frameworks;  // Each once.
  std::string known;
  for (const Framework& framework : conventions.frameworks) {
    if (!frameworks.insert(framework.name).second) continue;
    known += (known.empty() ? "" : ", ") + framework.name;
  }
  for (const MeasuredStep& s : steps) {
    if (!s.framework.empty() && frameworks.insert(s.framework).second) {
      warnings.push_back(fmt::format(
          "{}: framework: found \"{}\", of which nothing is known beyond its plans; known: {}",
          s.where, s.framework, known));
    }
    if (s.hidden && s.heads && *s.hidden % *s.heads != 0) {
      warnings.push_back(
          fmt::format("{}: heads: found {}, which do not divide {} of hidden; taken as not known",
                      s.where, *s.heads, *s.hidden));
    }
  }
  return warnings;
}

}  // namespace orrery::study

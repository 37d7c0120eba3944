#pragma once
// The decision: how a model is laid out on a cluster. Structural (degrees, orders, counts), never a
// list of ranks, so a plan for 16,384 devices is as short as one for 8. A human reads and edits it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model.h"
#include "core/units.h"

namespace orrery::core {

enum class Axis { Tensor, Context, Sharding, Expert, Pipeline, Data };
enum class PipelineSchedule {
  GPipe,
  OneFOneB,
  Interleaved,
  ZeroBubbleH1,
  ZeroBubble1p,
  ZeroBubble2p
};
enum class Recompute { None, Selective, Full };
/// Plain materialises the scores F[heads, sequence, sequence] in memory; Flash does not.
enum class AttentionKind { Flash, Plain };
/// Ring passes keys and values around the context group; AllToAll trades sequence for heads.
enum class ContextMethod { Ring, AllToAll };
/// Names used in files: "tensor"; "gpipe", "1f1b", "interleaved", "zb-h1", "zb-1p", "zb-2p";
/// "none", "selective", "full"; "flash", "plain"; "ring", "all-to-all".
std::string_view axis_name(Axis);
std::string_view schedule_name(PipelineSchedule);
std::string_view recompute_name(Recompute);
std::string_view attention_kind_name(AttentionKind);
std::string_view context_method_name(ContextMethod);

/// What a schedule that is computed from durations (zb-1p, zb-2p) was computed from, so that the
/// plan alone says the order of passes. Of one microbatch on one stage.
struct PassTimes {
  Seconds forward, input_grad, weight_grad, message;
  /// Memory between the two halves of the backward pass, as a share of that before them.
  double kept = 1.0;
  auto operator<=>(const PassTimes&) const = default;
};

/// Collective part. The product of the degrees of data, sharding, expert, pipeline, context and tensor
/// parallelism is the number of devices.
///
/// Experts. Ranks along the expert axis see different samples, like data ways, but hold different
/// experts of each layer; all else of a layer is the same on them. With expert_tensor = 1 the ranks of a
/// tensor group hold different experts too, instead of a part of each: what others call an expert
/// degree is then expert · tensor here. What those call the data degree is data · sharding · expert.
struct DensePlan {
  int data = 1;  ///< Replicas whose gradients are all-reduced (outside sharding).
  /// Data-parallel ranks that share the optimizer state (ZeRO group size); of what is no expert's the
  /// expert axis' ranks do too.
  int sharding = 1;
  int sharding_stage = 0;  ///< 0 (sharding = 1) or ZeRO stage 1, 2, 3.
  int tensor = 1;
  int pipeline = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 1;  ///< Ranks that share each expert's products: 1, or tensor.
  /// Slots of an expert over an even share of the rows: the load imbalance that has room.
  /// 1.25: Fedus et al., Switch Transformers, arXiv 2101.03961, section 2.2.
  double expert_capacity = 1.25;
  bool sequence_parallel = false;
  int virtual_stages = 1;                  ///< Model chunks per device (Interleaved).
  std::vector<int> layers_per_stage = {};  ///< pipeline · virtual_stages entries, in model order.
  int microbatch = 1;                      ///< Sequences per microbatch.
  PipelineSchedule schedule = PipelineSchedule::OneFOneB;
  std::optional<PassTimes> pass_times = {};  ///< zb-1p and zb-2p only.
  Recompute recompute = Recompute::None;
  /// Layers of each stage that recompute, the stage's first ones; absent: all of them.
  std::optional<int> recompute_layers = {};
  /// Full recomputation runs a layer's last product and its collective again too, though nobody reads
  /// them: frameworks that repeat a checkpointed layer's forward pass do.
  bool recompute_whole = false;
  AttentionKind attention = AttentionKind::Flash;
  ContextMethod context_method = ContextMethod::Ring;
  /// Gradients are reduced in pieces of at least this size (whole layers); absent: layer by layer.
  std::optional<Bytes> bucket = {};
  bool overlap_gradients = true;  ///< Reduce them beside the last backward pass, not after it.
  /// From neighbouring ranks outwards.
  std::vector<Axis> axis_order = {Axis::Tensor, Axis::Sharding, Axis::Pipeline, Axis::Data};

  /// Ranks that see different samples.
  int data_ways() const { return data * sharding * expert; }
  int devices() const { return data_ways() * pipeline * context * tensor; }
  /// Ranks that share the optimizer's state of what every expert rank holds.
  int shared_sharding() const { return sharding_stage > 0 ? sharding * expert : 1; }
  /// Ranks that hold the different experts of a layer.
  int expert_ways() const { return expert * (tensor / expert_tensor); }
  auto operator<=>(const DensePlan&) const = default;
};

enum class UpdateMode { Synchronous, BoundedStaleness, Asynchronous, Geo };
/// Names used in files: "synchronous", "bounded-staleness", "asynchronous", "geo".
std::string_view update_mode_name(UpdateMode);

/// Parameter-server part. Ranks 0 .. workers-1 are workers; ranks workers .. workers+servers-1 are
/// servers, or the same ranks serve too when `colocated`. Row r of a table lives on server r mod
/// servers.
struct SparsePlan {
  int workers = 1;
  int servers = 1;
  bool colocated = false;  ///< Servers are the first `servers` workers.
  UpdateMode mode = UpdateMode::Synchronous;
  int slices = 1;  ///< Parts into which one worker cuts its batch (evaluated in order).

  int devices() const { return colocated ? workers : workers + servers; }
};

struct Plan {
  std::string name;
  std::string model;    ///< Path of the model's file, absolute or relative to the plan's file.
  std::string cluster;  ///< Path of the cluster's file.
  std::string job;      ///< Path of the job's file.
  std::optional<DensePlan> dense;
  std::optional<SparsePlan> sparse;

  int devices() const;
};

/// Microbatches that each pipeline runs in one step: global_batch / (data ways · microbatch).
int microbatches(const DensePlan&, int global_batch);

/// Layers per part when `layers` are dealt to `parts` as evenly as they go: the first
/// layers mod parts of them hold one more.
std::vector<int> even_layers(int layers, int parts);

/// "dp8 tp8 pp8 sh1 mb1 1f1b full": short, for tables.
std::string describe(const Plan&);

}  // namespace orrery::core

#pragma once
// What each training framework does that a published row does not say:
// data/validation/frameworks.toml.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/units.h"
#include "study/validate/measured_step.h"

namespace orrery::study {

/// How a framework deals layers to stages that they do not divide into.
enum class UnevenStages {
  Even,   ///< core::even_layers().
  Filled  ///< As many as the fullest stage must have, until none are left; see filled_layers().
};

struct Framework {
  std::string name;
  /// Sources whose steps it ran; empty: those that no other entry of the name lists.
  std::vector<std::string> sources;
  std::optional<core::Seconds> launch;  ///< Host's time to issue one kernel; absent: the device's.
  /// Its least time where that is not known (kernels replayed from a graph); absent: `launch`.
  std::optional<core::Seconds> least_launch;
  bool may_fuse = false;  ///< Whether a compiler fused its kernels is not known.
  bool eager = false;     ///< Normalisations and rotations run operator by operator, in float32.
  bool flash2 = false;    ///< Its flash attention is FlashAttention-2; see Machine::flash2.
  /// Whether gradients are accumulated in half precision is not known.
  bool maybe_half_gradients = false;
  bool blocking_launches = false;  ///< The host waits for each kernel before it issues the next.
  bool overlap_gradients = true;   ///< As DensePlan's; so are the next two.
  /// Sums over the tensor group hold up what is computed, in backward passes too.
  bool blocking_tensor = false;
  bool recompute_whole = false;
  /// Its selective recomputation repeats every second product, which is told as half of the layers in
  /// whole.
  bool selective_halves = false;
  bool half_gradients = false;       ///< Those of float16 are accumulated and reduced in it.
  bool messages_take_turns = false;  ///< As costmodel::EstimateOptions'; so is the next.
  bool messages_split = false;
  /// Buffers of these many elements of the step's precision that its sharded optimizer reduces through.
  double bucket_elements = 0;
  /// With bfloat16, copies of the gradients in the step's precision beside those in float32.
  int bfloat16_copies = 0;
  UnevenStages uneven_stages = UnevenStages::Even;
  double flash_speed = 1.0;  ///< Of its flash attention, of the one that devices are fitted to.
  /// Steps of this source, with so many layers of this width, were used to fit `launch`.
  struct Fitted {
    std::string source;
    int layers = 0;
    int hidden = 0;
  };
  std::optional<Fitted> fitted;

  /// Whether the step was used to fit this framework, and so proves nothing.
  bool fitted_on(const MeasuredStep&) const;
};

using Frameworks = std::vector<Framework>;

/// [[framework]] tables with `name` and, optionally, what else Framework has, by its names
/// (`fitted` as `fitted_on`); the constants with their source.
/// @throws ConfigError
Frameworks read_frameworks(const std::filesystem::path&);

/// What the step ran on; a framework that is not known keeps to the plan's defaults.
Framework framework_of(const Frameworks&, const MeasuredStep&);

/// Layers of each of `parts` stages, the fullest of which hold as few as they can: all full ones first.
/// Where the layers and two more divide evenly, the embedding and the output layer count as one
/// layer each.
/// @source DeepSpeed's partition_balanced, and 'type:transformer|embedding' of bigscience's
///         Megatron-DeepSpeed (train/tr11-176B-ml/chronicles-prequel.md, "Rebalancing layers": 78 layers
///         on 12 stages are eleven times 7 and 1)
std::vector<int> filled_layers(int layers, int parts);

}  // namespace orrery::study

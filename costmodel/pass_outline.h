#pragma once
// The passes of a lowered stage, reduced to what their times depend on: read off its instructions
// once, then timed for any microbatch and any placement of its groups by arithmetic. An operator of
// a larger microbatch is the lowered one with more rows; what waits for what is the same.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <variant>
#include <vector>

#include "core/cluster.h"
#include "core/program.h"
#include "core/trace.h"
#include "core/units.h"
#include "costmodel/group_cost.h"
#include "costmodel/lowered_stage.h"
#include "costmodel/pass_memory.h"

namespace orrery::costmodel {

/// The operator on `times` as many rows.
core::Operator with_rows_times(core::Operator, int times);

/// What takes the time of an item, stored once for all items that are alike. An Accumulate is of all
/// ranks that share.
struct PassAction {
  struct InGroup {
    core::CollectiveKind kind;
    core::GroupKind group;
    ScaledBytes bytes;
    auto operator<=>(const InGroup&) const = default;
  };
  struct Hop {  ///< To the next in the context group.
    ScaledBytes bytes;
    auto operator<=>(const Hop&) const = default;
  };
  std::variant<core::Operator, InGroup, Hop> what;
};

/// An instruction of a pass.
struct PassItem {
  core::Stream stream = core::Stream::Compute;
  bool recomputes = false;
  std::optional<std::size_t> action;  ///< Without one it takes no time of its stage.
  std::uint32_t waits_end = 0;  ///< Of its waits in PassOutline::waits, after the last item's.
  std::optional<StagePart> completes;  ///< It adds to the gradients of this part.
};

struct PassOutline {
  std::vector<PassItem> items;
  std::vector<std::uint32_t> waits;  ///< Earlier items, by item.
  core::Seconds issued;              ///< What the host needs to issue all up to its last kernel,
  core::Seconds all_issued;          ///< and what is sent after it.
};

/// What a pass takes.
struct PassTiming {
  core::Seconds makespan;  ///< Until the compute stream is done.
  /// Until it would be if the device took no time but for the last kernel, and all is issued.
  core::Seconds issued;
  core::Seconds compute, recompute;  ///< By themselves.
  core::Seconds interference;        ///< What computing takes longer beside communication.
  /// Of the compute stream, by what it waits for: of all that an item waits for, what ends last.
  std::array<core::Seconds, core::kSpanKinds> waits{};
  std::array<core::Seconds, core::kStreams> busy{};  ///< By stream.
  core::Seconds ahead;                               ///< Recomputation before the pass proper.
  /// When the gradients of these parts are complete; absent where the pass adds nothing to them.
  std::optional<core::Seconds> embedding, first_layer, second_layer, head;
};

/// Which collectives of the tensor group run in turn with what is computed, as on its stream.
enum class TensorBlocking {
  Nothing,
  Recomputation,  ///< Those that recomputation repeats, even where nobody reads their result.
  Everything
};

/// What a framework and a device do with passes that no plan says.
struct PassConditions {
  TensorBlocking blocking = TensorBlocking::Nothing;
  /// Device::beside_communication.
  double beside = 1.0;
};

/// Runs a pass's streams, each in order, with every wait; what other stages and the data bring is
/// there in time. What is computed beside communication takes longer (core/interference.h).
/// @param durations  Of the actions.
PassTiming timing_of(const PassOutline&, const std::vector<core::Seconds>& durations,
                     const PassConditions& = {});

/// A stage lowered by itself.
struct StageOutline {
  std::vector<PassOutline>
      passes;           ///< Forward, backward and, where they are split off, weight gradients.
  ScaledBytes message;  ///< The largest to a neighbouring stage.
};

/// Outlines of the stages of one model, device and kind of plan.
class StageOutliner {
 public:
  StageOutliner(const core::Device& device, core::DType precision)
      : device_(device), precision_(precision) {}

  StageOutline outline(const ScaledStage&);

  /// By PassItem::action, of all stages outlined so far.
  struct Question {
    int scale = 1;     ///< The microbatch, in units of the lowered one.
    int sharding = 1;  ///< Ranks that share.
  };
  std::vector<core::Seconds> durations(const Question&, const PlanGroups&, const FabricCost&) const;

 private:
  PassOutline outline(const core::Block&, const ScaledStage&);
  std::optional<std::size_t> action_of(const core::Instruction&, const ScaledStage&);
  std::size_t index_of(const core::Compute&, int sharding);
  template <class Action>
  std::size_t index_of(const Action&);
  core::Seconds duration(const PassAction&, const Question&, const PlanGroups&,
                         const FabricCost&) const;

  const core::Device& device_;
  core::DType precision_;
  std::vector<PassAction> actions_;
  /// Of operators, by action: those of one model's stage that agree in it are the same.
  using Likeness = std::tuple<std::size_t, core::Flops, core::Flops, core::Bytes, std::int64_t,
                              std::int64_t, std::int64_t>;
  static Likeness likeness(const core::Compute&);
  std::vector<std::optional<Likeness>> likenesses_;
};

}  // namespace orrery::costmodel

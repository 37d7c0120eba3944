#pragma once
// What waits for what in a pipeline schedule: the passes of core/lowering/pipeline_schedule.h and
// their messages, with the waits that lowering gives them (core/lowering/message_bounds.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/lowering/pipeline_schedule.h"

namespace orrery::costmodel {

/// What the durations of nodes are: passes by kind and chunk, messages by chunk, beginnings by stage.
enum NodeKind { kNothing, kForward, kBackward, kWeightGrad, kMessage, kBegin, kNodeKinds };
inline std::uint32_t node_duration(NodeKind kind, std::size_t index) {
  return static_cast<std::uint32_t>(index * kNodeKinds + static_cast<std::size_t>(kind));
}

/// Microbatches by which a schedule grows.
int schedule_period(const core::PipelineShape&);

/// What waits for what in a schedule, whatever the durations: worked out once, then replayed in a
/// few nanoseconds a pass.
struct PipelineGraph {
  /// A pass, a message or the beginning of a stage. It ends at
  /// max(max(after) + first, input) + second, the latter two by `what`.
  struct Node {
    std::array<std::uint32_t, 3> after{};  ///< Nodes; node 0 is the beginning of time.
    std::uint32_t input = 0;
    std::uint32_t what = 0;
  };
  /// A pass or a message, and its like one period earlier.
  struct Repetition {
    std::uint32_t node = 0, before = 0;
  };
  int stages = 1;
  int chunks = 1;                   ///< Of all stages.
  std::vector<Node> nodes;          ///< Each after those that it waits for.
  std::vector<std::uint32_t> last;  ///< Of each chunk, its last backward pass.
  /// By phase of the step that each further period makes longer (GPipe's forwards and its backwards;
  /// else one): enough to know that it repeats. Empty where the step is too short to tell.
  std::vector<std::vector<Repetition>> phases;
};
PipelineGraph pipeline_graph(const core::PipelineShape&);

/// The graphs of the shapes met so far.
class PipelineGraphs {
 public:
  const PipelineGraph& of(const core::PipelineShape&);

 private:
  std::map<core::PipelineShape, PipelineGraph> known_;
  std::size_t nodes_ = 0;
};

}  // namespace orrery::costmodel

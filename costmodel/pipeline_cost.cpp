#include "costmodel/pipeline_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/lowering/message_bounds.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

/// A number of each of several steps that are replayed side by side: adjacent, so that a processor
/// works on them at once.
template <std::size_t kSteps>
using Lanes = std::array<double, kSteps>;

template <std::size_t kSteps>
struct Duration {
  Lanes<kSteps> first{}, second{};
};

/// By PipelineGraph::Node::what.
template <std::size_t kSteps>
std::vector<Duration<kSteps>> durations_of(const PipelineGraph& graph,
                                           const PipelineStages* steps) {
  const auto chunks = static_cast<std::size_t>(graph.chunks);
  std::vector<Duration<kSteps>> durations(chunks * kNodeKinds);
  for (std::size_t k = 0; k < kSteps; ++k) {
    const PipelineStages& stages = steps[k];
    const auto second = [&](NodeKind kind, std::size_t index) -> double& {
      return durations[node_duration(kind, index)].second[k];
    };
    for (std::size_t c = 0; c < chunks; ++c) {
      second(kForward, c) = stages.forward[c].value;
      durations[node_duration(kBackward, c)].first[k] = stages.ahead[c].value;
      second(kBackward, c) = (stages.backward[c] - stages.ahead[c]).value;
      if (!stages.weight_grad.empty()) second(kWeightGrad, c) = stages.weight_grad[c].value;
      if (c + 1 < chunks) second(kMessage, c) = stages.message[c].value;
    }
    for (std::size_t s = 0; s < stages.begin.size(); ++s) second(kBegin, s) = stages.begin[s].value;
  }
  return durations;
}

/// When each node ends: into `times`.
template <std::size_t kSteps>
void replay(const PipelineGraph& graph, const PipelineStages* steps,
            std::vector<Lanes<kSteps>>& times) {
  const std::vector<Duration<kSteps>> durations = durations_of<kSteps>(graph, steps);
  if (times.size() < graph.nodes.size()) times.resize(graph.nodes.size());
  times[0] = {};
  for (std::size_t i = 1; i < graph.nodes.size(); ++i) {
    const PipelineGraph::Node& node = graph.nodes[i];
    const Duration<kSteps>& duration = durations[node.what];
    // Copies: what is read is then known to be none of what is written.
    Lanes<kSteps> end = times[node.after[0]];
    const auto wait_for = [&](const Lanes<kSteps>& other) {
      for (std::size_t k = 0; k < kSteps; ++k) end[k] = end[k] < other[k] ? other[k] : end[k];
    };
    const auto take = [&](const Lanes<kSteps>& time) {
      for (std::size_t k = 0; k < kSteps; ++k) end[k] += time[k];
    };
    wait_for(times[node.after[1]]);
    wait_for(times[node.after[2]]);
    take(duration.first);
    wait_for(times[node.input]);
    take(duration.second);
    times[i] = end;
  }
}

/// By how much a further period makes a step longer; absent where the last ones differ in that.
template <std::size_t kSteps>
std::optional<Seconds> growth_of(const PipelineGraph& graph,
                                 const std::vector<Lanes<kSteps>>& times, std::size_t step) {
  constexpr double kRounding = 1e-12;
  if (graph.phases.empty()) return std::nullopt;
  Seconds sum;
  for (const auto& phase : graph.phases) {
    const auto later = [&](const PipelineGraph::Repetition& r) {
      return times[r.node][step] - times[r.before][step];
    };
    const double growth = later(phase.front());
    for (const PipelineGraph::Repetition& r : phase) {
      if (std::abs(later(r) - growth) > kRounding * times[r.node][step]) return std::nullopt;
    }
    sum += Seconds(growth);
  }
  return sum;
}

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Microbatches of steps that are replayed: along the line through the two a step is extended that has
/// more than `most`.
struct Limits {
  int near, far, most;
};

Limits limits_of(const core::PipelineShape& shape) {
  const int p = shape.stages;
  const int near = round_up(std::max(2 * p, 32), p);
  const int far = near + round_up(std::max(p, 64), p);
  constexpr int kReplayed = 4096;  // Pairs of passes that cost well below a millisecond.
  return {near, far, std::max(far, kReplayed / (p * shape.chunks))};
}

/// Microbatches that fill the pipeline and repeat what comes then; as many as are replayed where the
/// order may change with each.
int filling(const core::PipelineShape& shape) {
  switch (shape.schedule) {
    case core::PipelineSchedule::Interleaved:
      return 4 * shape.stages;
    case core::PipelineSchedule::GPipe:
    case core::PipelineSchedule::OneFOneB:
      return shape.stages + core::kMessagesAhead + 3;
    case core::PipelineSchedule::ZeroBubbleH1:
      return 2 * shape.stages + core::kMessagesAhead + 3;
    case core::PipelineSchedule::ZeroBubble1p:
    case core::PipelineSchedule::ZeroBubble2p:
      return std::min(shape.microbatches, limits_of(shape).most);
  }
  ORRERY_CHECK(false, "unknown PipelineSchedule");
}

/// When the last pass of each chunk ends, and by how much a further period would move it; unknown
/// where the step does not repeat itself yet.
struct Replayed {
  std::vector<Seconds> ends;
  std::optional<Seconds> growth;
};

template <std::size_t kSteps>
void replay_some(const PipelineGraph& graph, const PipelineStages* steps,
                 std::vector<Lanes<kSteps>>& times, std::vector<Replayed>& result) {
  replay(graph, steps, times);
  for (std::size_t k = 0; k < kSteps; ++k) {
    Replayed& step = result.emplace_back();
    step.ends.reserve(graph.last.size());
    for (const std::uint32_t node : graph.last) step.ends.emplace_back(times[node][k]);
    step.growth = growth_of<kSteps>(graph, times, k);
  }
}

std::vector<Replayed> replayed(const PipelineGraph& graph,
                               const std::vector<PipelineStages>& steps) {
  std::vector<Replayed> result;
  result.reserve(steps.size());
  std::vector<Lanes<8>> of_eight;  // Of one replay after the other.
  std::vector<Lanes<4>> of_four;
  std::vector<Lanes<2>> of_two;
  std::vector<Lanes<1>> of_one;
  while (result.size() < steps.size()) {
    const PipelineStages* next = steps.data() + result.size();
    const std::size_t left = steps.size() - result.size();
    if (left >= 8) {
      replay_some(graph, next, of_eight, result);
    } else if (left >= 4) {
      replay_some(graph, next, of_four, result);
    } else if (left >= 2) {
      replay_some(graph, next, of_two, result);
    } else {
      replay_some(graph, next, of_one, result);
    }
  }
  return result;
}

std::vector<Seconds> moved(Replayed step, int periods) {
  if (periods == 0) return std::move(step.ends);
  for (Seconds& end : step.ends) end += *step.growth * periods;
  return std::move(step.ends);
}

/// Along the line through two shorter steps: for what hardly changes any more.
std::vector<Seconds> extended(core::PipelineShape shape, const PipelineStages& stages,
                              PipelineGraphs& graphs) {
  const Limits limits = limits_of(shape);
  const double more =
      static_cast<double>(shape.microbatches - limits.far) / (limits.far - limits.near);
  shape.microbatches = limits.near;
  const std::vector<Seconds> at_near = replayed(graphs.of(shape), {stages}).front().ends;
  shape.microbatches = limits.far;
  std::vector<Seconds> result = replayed(graphs.of(shape), {stages}).front().ends;
  for (std::size_t c = 0; c < result.size(); ++c) result[c] += (result[c] - at_near[c]) * more;
  return result;
}

/// A step that has not begun to repeat itself after so many microbatches.
std::vector<Seconds> finish_beyond(int microbatches, const core::PipelineShape& shape,
                                   const PipelineStages& stages, PipelineGraphs& graphs) {
  const int most = limits_of(shape).most;
  core::PipelineShape shorter = shape;
  for (int m = 2 * microbatches; m < std::min(shape.microbatches, most + 1); m *= 2) {
    shorter.microbatches = m;
    Replayed step = replayed(graphs.of(shorter), {stages}).front();
    if (step.growth)
      return moved(std::move(step), (shape.microbatches - m) / schedule_period(shape));
  }
  if (shape.microbatches > most) return extended(shape, stages, graphs);
  return replayed(graphs.of(shape), {stages}).front().ends;
}

}  // namespace

std::vector<std::vector<Seconds>> pipeline_finishes(const core::PipelineShape& shape,
                                                    const std::vector<PipelineStages>& steps,
                                                    PipelineGraphs& graphs) {
  core::PipelineShape shorter = shape;
  shorter.microbatches = std::min(shape.microbatches, filling(shape));
  const int periods = (shape.microbatches - shorter.microbatches) / schedule_period(shape);
  std::vector<Replayed> all = replayed(graphs.of(shorter), steps);
  std::vector<std::vector<Seconds>> finishes;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    finishes.push_back(periods == 0 || all[i].growth
                           ? moved(std::move(all[i]), periods)
                           : finish_beyond(shorter.microbatches, shape, steps[i], graphs));
  }
  return finishes;
}

std::vector<Seconds> pipeline_finish(const core::PipelineShape& shape, const PipelineStages& stages,
                                     PipelineGraphs& graphs) {
  return std::move(pipeline_finishes(shape, {stages}, graphs).front());
}

std::vector<Seconds> pipeline_finish(const core::PipelineShape& shape,
                                     const PipelineStages& stages) {
  PipelineGraphs graphs;
  return pipeline_finish(shape, stages, graphs);
}

std::vector<Seconds> stage_finish(const std::vector<Seconds>& of_chunks, int stages) {
  std::vector<Seconds> ends(static_cast<std::size_t>(stages));
  for (std::size_t c = 0; c < of_chunks.size(); ++c) {
    Seconds& end = ends[c % ends.size()];
    end = std::max(end, of_chunks[c]);
  }
  return ends;
}

}  // namespace orrery::costmodel

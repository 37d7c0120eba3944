#include "costmodel/pipeline_graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/lowering/message_bounds.h"

namespace orrery::costmodel {
namespace {

using core::PassKind;

enum Direction { Down = 0, Up = 1 };  // Gradients go down the model, activations up.

/// Plays a schedule without durations and records what waits for what.
class PipelineRecorder {
 public:
  explicit PipelineRecorder(const core::PipelineShape& shape)
      : shape_(shape),
        p_(static_cast<std::size_t>(shape.stages)),
        chunks_(p_ * static_cast<std::size_t>(shape.chunks)),
        microbatches_(static_cast<std::size_t>(shape.microbatches)) {
    graph_.stages = shape.stages;
    graph_.chunks = static_cast<int>(chunks_);
    graph_.nodes.emplace_back();
    graph_.last.resize(chunks_);
    for (auto& messages : sent_) messages.resize(chunks_ * microbatches_);
    for (auto& passes : core::pipeline_passes(shape)) {
      lines_.emplace_back();
      lines_.back().passes = std::move(passes);
    }
    // Passes, and a message each way from chunk to chunk.
    std::size_t nodes = 1 + p_ + 2 * chunks_ * microbatches_;
    for (const Line& line : lines_) nodes += line.passes.size();
    graph_.nodes.reserve(nodes);
    for (std::size_t s = 0; s < p_; ++s) {
      lines_[s].end.reserve(lines_[s].passes.size());
      place_messages(s);
      lines_[s].begin = add({{}, 0, node_duration(kBegin, s)});
    }
  }

  PipelineGraph record() {
    // Up and down in turn, as messages go.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < p_; ++s) moved |= advance(s);
      for (std::size_t s = p_; s-- > 0;) moved |= advance(s);
    }
    for (const Line& line : lines_) {
      ORRERY_CHECK(line.end.size() == line.passes.size(), "a schedule that does not end");
    }
    add_phases();
    return std::move(graph_);
  }

 private:
  using Node = std::uint32_t;

  /// One stage's passes in order, as far as they are recorded.
  struct Line {
    std::vector<core::StagePass> passes;
    Node begin = 0;
    std::vector<Node> end;  ///< Of the passes done.
    /// Passes that receive, and passes that send, by direction.
    std::array<std::vector<std::size_t>, 2> receives, sends;
    std::array<std::size_t, 2> sends_done{};
  };
  /// A message of one chunk's pass on one microbatch.
  struct Message {
    std::size_t sender = 0;    ///< Its pass within the sender's line.
    std::size_t received = 0;  ///< Its place among the receiver's receives of this direction.
    std::optional<Node> arrival;
  };

  Node add(const PipelineGraph::Node& node) {
    graph_.nodes.push_back(node);
    return static_cast<Node>(graph_.nodes.size() - 1);
  }

  std::size_t chunk_of(std::size_t s, const core::StagePass& pass) const {
    return static_cast<std::size_t>(pass.chunk) * p_ + s;
  }
  /// Where the results of a pass go; empty for weight gradients and at the model's ends.
  std::optional<std::size_t> chunk_after(std::size_t chunk, PassKind kind) const {
    if (kind == PassKind::WeightGrad) return std::nullopt;
    if (kind == PassKind::Forward)
      return chunk + 1 < chunks_ ? std::optional(chunk + 1) : std::nullopt;
    return chunk > 0 ? std::optional(chunk - 1) : std::nullopt;
  }
  std::optional<std::size_t> chunk_before(std::size_t chunk, PassKind kind) const {
    if (kind == PassKind::WeightGrad) return std::nullopt;
    return chunk_after(chunk, kind == PassKind::Forward ? PassKind::Backward : PassKind::Forward);
  }
  static Direction direction(PassKind kind) { return kind == PassKind::Forward ? Up : Down; }
  /// NodeKind a chunk sends in a direction on a microbatch.
  Message& message(Direction way, std::size_t chunk, int microbatch) {
    return sent_[way][chunk * microbatches_ + static_cast<std::size_t>(microbatch)];
  }

  void place_messages(std::size_t s) {
    Line& line = lines_[s];
    for (std::size_t i = 0; i < line.passes.size(); ++i) {
      const core::StagePass& pass = line.passes[i];
      const std::size_t chunk = chunk_of(s, pass);
      const Direction way = direction(pass.kind);
      if (chunk_after(chunk, pass.kind)) {
        message(way, chunk, pass.microbatch).sender = i;
        line.sends[way].push_back(i);
      }
      if (const auto from = chunk_before(chunk, pass.kind)) {
        message(way, *from, pass.microbatch).received = line.receives[way].size();
        line.receives[way].push_back(i);
      }
    }
  }

  bool advance(std::size_t s) {
    bool moved = false;
    Line& line = lines_[s];
    while (line.end.size() < line.passes.size() && step(s, line)) moved = true;
    return moved;
  }

  /// Records the next pass of a stage if everything it waits for is known.
  bool step(std::size_t s, Line& line) {
    const std::size_t i = line.end.size();
    const core::StagePass pass = line.passes[i];
    const std::size_t chunk = chunk_of(s, pass);
    const Direction way = direction(pass.kind);
    const bool sends = chunk_after(chunk, pass.kind).has_value();
    PipelineGraph::Node node{{i == 0 ? line.begin : line.end[i - 1]}, 0, 0};
    std::size_t waits = 1;
    const auto wait_for = [&](std::optional<Node> arrived) {
      if (arrived) node.after[waits++] = *arrived;
      return arrived.has_value();
    };
    if (sends && line.sends_done[way] >= core::kMessagesAhead) {
      const std::size_t earlier = line.sends[way][line.sends_done[way] - core::kMessagesAhead];
      if (!wait_for(arrival(s, line.passes[earlier]))) return false;
    }
    if (chunk_before(chunk, pass.kind)) {
      // NodeKind its forward sent has been received.
      if (way == Down && !wait_for(arrival(s, {PassKind::Forward, pass.microbatch, pass.chunk}))) {
        return false;
      }
      const auto got = arrival_at(chunk, pass);
      if (!got) return false;
      node.input = *got;
    }
    node.what = node_duration(pass_of(pass.kind), chunk);
    line.end.push_back(add(node));
    if (sends) ++line.sends_done[way];
    if (pass.kind != PassKind::Forward) graph_.last[chunk] = line.end.back();
    return true;
  }

  static NodeKind pass_of(PassKind kind) {
    switch (kind) {
      case PassKind::Forward:
        return kForward;
      case PassKind::Backward:
      case PassKind::InputGrad:
        return kBackward;
      case PassKind::WeightGrad:
        return kWeightGrad;
    }
    ORRERY_CHECK(false, "unknown PassKind");
  }

  /// Where what a pass of stage s sends arrives; absent while unknown.
  std::optional<Node> arrival(std::size_t s, const core::StagePass& pass) {
    return arrival_of(chunk_of(s, pass), pass.kind, pass.microbatch);
  }
  /// Where what a pass of a chunk needs arrives.
  std::optional<Node> arrival_at(std::size_t chunk, const core::StagePass& pass) {
    return arrival_of(*chunk_before(chunk, pass.kind), pass.kind, pass.microbatch);
  }

  std::optional<Node> arrival_of(std::size_t chunk, PassKind kind, int microbatch) {
    const Direction way = direction(kind);
    Message& sent = message(way, chunk, microbatch);
    if (sent.arrival) return sent.arrival;
    const Line& sender = lines_[chunk % p_];
    if (sent.sender >= sender.end.size()) return std::nullopt;
    const std::size_t to = *chunk_after(chunk, kind);
    const Line& receiver = lines_[to % p_];
    PipelineGraph::Node moves{
        {sender.end[sent.sender]}, 0, node_duration(kMessage, std::min(chunk, to))};
    if (sent.received >= core::kMessagesAhead) {
      const std::size_t user = receiver.receives[way][sent.received - core::kMessagesAhead];
      if (user >= receiver.end.size()) return std::nullopt;
      moves.after[1] = receiver.end[user];
    }
    if (sent.received > 0) {
      const std::size_t previous = receiver.receives[way][sent.received - 1];
      const auto free =
          arrival_at(chunk_of(to % p_, receiver.passes[previous]), receiver.passes[previous]);
      if (!free) return std::nullopt;
      moves.after[2] = *free;
    }
    return sent.arrival = add(moves);
  }

  void add_phases() {
    if (core::computed_from_durations(shape_.schedule)) return;
    const bool gpipe = shape_.schedule == core::PipelineSchedule::GPipe;
    const std::size_t of_microbatch = gpipe ? 1 : core::splits_backward(shape_.schedule) ? 3 : 2;
    const std::size_t period =
        of_microbatch * static_cast<std::size_t>(schedule_period(shape_) * shape_.chunks);
    std::vector<PipelineGraph::Repetition> forwards, all;
    bool repeats = true;
    for (std::size_t s = 0; s < p_; ++s) {
      const std::vector<core::StagePass>& passes = lines_[s].passes;
      const auto last = std::find_if(passes.rbegin(), passes.rend(), [](const auto& pass) {
        return pass.kind == PassKind::Forward;
      });
      const auto ended = static_cast<std::size_t>(passes.rend() - last);
      repeats = repeats && add_repetitions(s, ended, period, of_microbatch, forwards);
      if (gpipe) repeats = repeats && add_repetitions(s, passes.size(), period, 1, all);
    }
    if (!repeats) return;
    graph_.phases.push_back(std::move(forwards));
    if (gpipe) graph_.phases.push_back(std::move(all));
  }

  /// The passes of a stage before the `end`-th, a period and as many as messages may run ahead, with
  /// what they send. False where they do not repeat those before them.
  bool add_repetitions(std::size_t s, std::size_t end, std::size_t period,
                       std::size_t of_microbatch,
                       std::vector<PipelineGraph::Repetition>& repetitions) {
    const std::size_t count = std::max(period, (core::kMessagesAhead + 1) * of_microbatch);
    if (end < count + period) return false;
    const Line& line = lines_[s];
    for (std::size_t i = end - count; i < end; ++i) {
      const core::StagePass& pass = line.passes[i];
      const core::StagePass& before = line.passes[i - period];
      if (pass.kind != before.kind || pass.chunk != before.chunk) return false;
      repetitions.push_back({line.end[i], line.end[i - period]});
      if (!chunk_after(chunk_of(s, pass), pass.kind)) continue;
      repetitions.push_back({*arrival(s, pass), *arrival(s, before)});
    }
    return true;
  }

  const core::PipelineShape& shape_;
  PipelineGraph graph_;
  std::size_t p_, chunks_, microbatches_;
  std::vector<Line> lines_;
  std::array<std::vector<Message>, 2> sent_;  ///< By chunk and microbatch.
};

}  // namespace

int schedule_period(const core::PipelineShape& shape) {
  return shape.schedule == core::PipelineSchedule::Interleaved ? shape.stages : 1;
}

PipelineGraph pipeline_graph(const core::PipelineShape& shape) {
  return PipelineRecorder(shape).record();
}

const PipelineGraph& PipelineGraphs::of(const core::PipelineShape& shape) {
  const auto known = known_.find(shape);
  if (known != known_.end()) return known->second;
  constexpr std::size_t kMostNodes = 4'000'000;  // Some 80 megabytes.
  if (nodes_ > kMostNodes) {
    known_.clear();
    nodes_ = 0;
  }
  const PipelineGraph& graph = known_.try_emplace(shape, pipeline_graph(shape)).first->second;
  nodes_ += graph.nodes.size();
  return graph;
}

}  // namespace orrery::costmodel

#include "core/trace/rank_timeline.h"

#include <algorithm>
#include <array>
#include <set>

namespace orrery::core {

bool is_compute(SpanKind kind) { return kind != SpanKind::Load && !is_communication(kind); }

Interval active_interval(const Span& span) { return {span.transfer, span.end}; }

namespace {

constexpr std::array kLeadingOrder = {SpanKind::Forward,
                                      SpanKind::Recompute,
                                      SpanKind::Backward,
                                      SpanKind::WeightGrad,
                                      SpanKind::OptimizerStep,
                                      SpanKind::Serve,
                                      SpanKind::TensorCommunication,
                                      SpanKind::ContextCommunication,
                                      SpanKind::ExpertCommunication,
                                      SpanKind::PipelineCommunication,
                                      SpanKind::ParameterGather,
                                      SpanKind::DataCommunication,
                                      SpanKind::ParameterServer,
                                      SpanKind::Load};
static_assert(kLeadingOrder.size() == kSpanKinds);

}  // namespace

bool KindSet::computes() const {
  return std::any_of(kLeadingOrder.begin(), kLeadingOrder.end(),
                     [&](SpanKind k) { return is_compute(k) && contains(k); });
}

bool KindSet::communicates() const {
  return std::any_of(kLeadingOrder.begin(), kLeadingOrder.end(),
                     [&](SpanKind k) { return is_communication(k) && contains(k); });
}

std::optional<SpanKind> KindSet::leading() const {
  for (SpanKind kind : kLeadingOrder) {
    if (contains(kind)) return kind;
  }
  return std::nullopt;
}

int step_count(const Trace& trace) {
  int last = static_cast<int>(trace.steps.size()) - 1;
  for (const Span& span : trace.spans) last = std::max(last, span.instruction.step);
  return last + 1;
}

std::vector<int> recorded_steps(const Trace& trace) {
  std::set<int> steps;
  for (const Span& span : trace.spans) steps.insert(span.instruction.step);
  return {steps.begin(), steps.end()};
}

Interval step_interval(const Trace& trace, int step) {
  if (static_cast<std::size_t>(step) < trace.steps.size()) {
    const StepInfo& info = trace.steps[static_cast<std::size_t>(step)];
    return {info.start, info.end};
  }
  std::optional<Interval> hull;
  for (const Span& span : trace.spans) {
    if (span.instruction.step != step) continue;
    if (!hull) hull = {span.start, span.end};
    hull->begin = std::min(hull->begin, span.start);
    hull->end = std::max(hull->end, span.end);
  }
  return hull.value_or(Interval{});
}

std::optional<Interval> pipeline_window(const Trace& trace, int step) {
  std::optional<Seconds> first;
  std::optional<Seconds> last;
  for (const Span& span : trace.spans) {
    if (span.instruction.step != step) continue;
    if (span.kind == SpanKind::Forward) first = std::min(first.value_or(span.start), span.start);
    if (span.kind == SpanKind::Backward || span.kind == SpanKind::WeightGrad) {
      last = std::max(last.value_or(span.end), span.end);
    }
  }
  if (!first || !last) return std::nullopt;
  return Interval{*first, std::max(*first, *last)};
}

std::vector<Rank> recorded_ranks(const Trace& trace) {
  std::vector<Rank> ranks;
  for (const Lane& lane : trace.lanes) {
    if (ranks.empty() || ranks.back() != lane.rank) ranks.push_back(lane.rank);
  }
  return ranks;
}

int ranks_represented(const Trace& trace, Rank rank) {
  for (const Lane& lane : trace.lanes) {
    if (lane.rank == rank) return 1 + static_cast<int>(lane.also.size());
  }
  return 0;
}

std::vector<std::int32_t> spans_of(const Trace& trace, Rank rank, int step) {
  // Spans are sorted by (lane, step, ...) and a rank's lanes are neighbours.
  const auto lane_rank = [&](const Span& s) {
    return trace.lanes[static_cast<std::size_t>(s.lane)].rank;
  };
  const auto begin = std::partition_point(trace.spans.begin(), trace.spans.end(),
                                          [&](const Span& s) { return lane_rank(s) < rank; });
  std::vector<std::int32_t> numbers;
  for (auto s = begin; s != trace.spans.end() && lane_rank(*s) == rank; ++s) {
    if (s->instruction.step == step) {
      numbers.push_back(static_cast<std::int32_t>(s - trace.spans.begin()));
    }
  }
  return numbers;
}

std::vector<Piece> pieces(const Trace& trace, Rank rank, int step, Interval within) {
  struct Edge {
    Seconds time;
    SpanKind kind;
    int change;
  };
  std::vector<Edge> edges;
  for (std::int32_t i : spans_of(trace, rank, step)) {
    const Span& span = trace.spans[static_cast<std::size_t>(i)];
    const Interval active = active_interval(span);
    const Interval clipped{std::clamp(active.begin, within.begin, within.end),
                           std::clamp(active.end, within.begin, within.end)};
    if (clipped.begin == clipped.end) continue;
    edges.push_back({clipped.begin, span.kind, 1});
    edges.push_back({clipped.end, span.kind, -1});
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.time < b.time; });

  std::vector<Piece> row;
  std::array<int, kSpanKinds> active{};
  const auto close = [&](Seconds until) {
    const Seconds from = row.empty() ? within.begin : row.back().when.end;
    if (from == until) return;
    KindSet kinds;
    for (int k = 0; k < kSpanKinds; ++k) {
      if (active[static_cast<std::size_t>(k)] > 0) kinds.insert(static_cast<SpanKind>(k));
    }
    if (!row.empty() && row.back().active == kinds) {
      row.back().when.end = until;
    } else {
      row.push_back({{from, until}, kinds});
    }
  };
  for (const Edge& edge : edges) {
    close(edge.time);
    active[static_cast<std::size_t>(edge.kind)] += edge.change;
  }
  close(within.end);
  return row;
}

}  // namespace orrery::core

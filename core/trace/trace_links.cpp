#include "core/trace/trace_links.h"

#include <algorithm>

namespace orrery::core {

TraceLinks::TraceLinks(const Trace& trace) : trace_(trace) {
  const std::size_t spans = trace.spans.size();
  const std::size_t collectives =
      trace.collective_begin.empty() ? 0 : trace.collective_begin.size() - 1;
  collective_of_.assign(spans, static_cast<std::int32_t>(collectives));
  for (std::size_t c = 0; c < collectives; ++c) {
    for (auto i = trace.collective_begin[c]; i < trace.collective_begin[c + 1]; ++i) {
      const auto span = trace.collective_spans[static_cast<std::size_t>(i)];
      collective_of_[static_cast<std::size_t>(span)] = static_cast<std::int32_t>(c);
    }
  }
  flow_begin_.assign(spans + 1, 0);
  for (const Flow& flow : trace.flows) {
    ++flow_begin_[static_cast<std::size_t>(flow.from_span) + 1];
    ++flow_begin_[static_cast<std::size_t>(flow.to_span) + 1];
  }
  for (std::size_t i = 0; i < spans; ++i) flow_begin_[i + 1] += flow_begin_[i];
  flow_other_.resize(2 * trace.flows.size());
  std::vector<std::int64_t> next(flow_begin_.begin(), flow_begin_.end() - 1);
  for (const Flow& flow : trace.flows) {
    const auto put = [&](SpanNumber span, SpanNumber other) {
      flow_other_[static_cast<std::size_t>(next[static_cast<std::size_t>(span)]++)] = other;
    };
    put(flow.from_span, flow.to_span);
    put(flow.to_span, flow.from_span);
  }
}

std::span<const SpanNumber> TraceLinks::dependencies(SpanNumber i) const {
  if (trace_.dependency_begin.empty()) return {};
  const auto begin = static_cast<std::size_t>(trace_.dependency_begin[static_cast<std::size_t>(i)]);
  const auto end =
      static_cast<std::size_t>(trace_.dependency_begin[static_cast<std::size_t>(i) + 1]);
  return {trace_.dependencies.data() + begin, end - begin};
}

std::optional<SpanNumber> TraceLinks::lane_predecessor(SpanNumber i) const {
  if (i == 0 || at(i - 1).lane != at(i).lane) return std::nullopt;
  return i - 1;
}

std::optional<SpanNumber> TraceLinks::last_predecessor(SpanNumber i) const {
  std::optional<SpanNumber> last = lane_predecessor(i);
  // A dependency explains more than the lane does: it wins when both end together.
  for (SpanNumber other : dependencies(i)) {
    if (!last || at(other).end >= at(*last).end) last = other;
  }
  return last;
}

std::vector<SpanNumber> TraceLinks::parties(SpanNumber i) const {
  const auto s = static_cast<std::size_t>(i);
  std::vector<SpanNumber> all(flow_other_.begin() + flow_begin_[s],
                              flow_other_.begin() + flow_begin_[s + 1]);
  const auto c = static_cast<std::size_t>(collective_of_[s]);
  if (c + 1 < trace_.collective_begin.size()) {
    for (auto k = trace_.collective_begin[c]; k < trace_.collective_begin[c + 1]; ++k) {
      const SpanNumber other = trace_.collective_spans[static_cast<std::size_t>(k)];
      if (other != i) all.push_back(other);
    }
  }
  return all;
}

std::optional<SpanNumber> TraceLinks::last_party(SpanNumber i) const {
  std::optional<SpanNumber> last;
  for (SpanNumber other : parties(i)) {
    const Seconds latest = last ? at(*last).start : at(i).start;
    if (at(other).start > latest) last = other;
  }
  return last;
}

}  // namespace orrery::core

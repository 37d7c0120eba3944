#include "core/trace/trace_columns.h"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::core {

namespace {

/// Compressed rows: n + 1 offsets, rising from 0 to the number of values, or none at all.
bool sound_rows(const std::vector<std::int64_t>& begin, std::size_t values,
                std::optional<std::size_t> rows) {
  if (begin.empty()) return values == 0;
  if (rows && begin.size() != *rows + 1) return false;
  return begin.front() == 0 && begin.back() == static_cast<std::int64_t>(values) &&
         std::is_sorted(begin.begin(), begin.end());
}

std::optional<std::string> why_inconsistent(const Trace& trace, const Span& span) {
  const auto within = [](std::int32_t i, std::size_t n) {
    return i >= 0 && static_cast<std::size_t>(i) < n;
  };
  if (!within(span.lane, trace.lanes.size())) return fmt::format("no lane {}", span.lane);
  if (!within(span.name, trace.names.size())) return fmt::format("no name {}", span.name);
  const int kind = static_cast<int>(span.kind);
  if (kind < 0 || kind >= kSpanKinds) return fmt::format("no span kind {}", kind);
  if (!(span.start <= span.transfer && span.transfer <= span.end)) {
    return "it does not start, transfer and end in this order";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_inconsistent(const Trace& trace) {
  for (const Lane& lane : trace.lanes) {
    const int stream = static_cast<int>(lane.stream);
    if (stream < 0 || stream >= kStreams) return fmt::format("no stream {}", stream);
    if (lane.rank.value < 0) return fmt::format("no rank {}", lane.rank.value);
  }
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    if (const auto why = why_inconsistent(trace, trace.spans[i])) {
      return fmt::format("span {}: {}", i, *why);
    }
    if (i > 0 && trace.spans[i].lane < trace.spans[i - 1].lane) {
      return fmt::format("span {}: not sorted by lane", i);
    }
  }
  const auto is_span = [&](std::int32_t i) {
    return i >= 0 && static_cast<std::size_t>(i) < trace.spans.size();
  };
  if (!sound_rows(trace.dependency_begin, trace.dependencies.size(), trace.spans.size()) ||
      !std::all_of(trace.dependencies.begin(), trace.dependencies.end(), is_span)) {
    return "the dependencies do not fit the spans";
  }
  if (!sound_rows(trace.collective_begin, trace.collective_spans.size(), std::nullopt) ||
      !std::all_of(trace.collective_spans.begin(), trace.collective_spans.end(), is_span)) {
    return "the collectives do not fit the spans";
  }
  for (const Flow& flow : trace.flows) {
    if (!is_span(flow.from_span) || !is_span(flow.to_span)) return "a flow names no span";
  }
  for (const Counter& counter : trace.counters) {
    if (counter.time.size() != counter.value.size()) {
      return fmt::format("counter {}: {} times, {} values", counter.name, counter.time.size(),
                         counter.value.size());
    }
  }
  return std::nullopt;
}

}  // namespace orrery::core

#include "core/trace/critical_path.h"

#include <algorithm>
#include <optional>

#include "core/trace/trace_links.h"

namespace orrery::core {

namespace {

std::optional<SpanNumber> last_of(const Trace& trace, int step) {
  std::optional<SpanNumber> last;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    if (trace.spans[i].instruction.step != step) continue;
    if (!last || trace.spans[i].end > trace.spans[static_cast<std::size_t>(*last)].end) {
      last = static_cast<SpanNumber>(i);
    }
  }
  return last;
}

}  // namespace

CriticalPath critical_path(const Trace& trace, int step) {
  const TraceLinks links(trace);
  const auto at = [&](SpanNumber i) -> const Span& {
    return trace.spans[static_cast<std::size_t>(i)];
  };
  CriticalPath path;
  std::optional<SpanNumber> current = last_of(trace, step);
  Seconds until = current ? at(*current).end : Seconds(0);
  // In a sound trace the way back never meets a span again; a file may hold any other.
  std::vector<bool> seen(trace.spans.size(), false);
  while (current && at(*current).instruction.step == step &&
         !seen[static_cast<std::size_t>(*current)]) {
    seen[static_cast<std::size_t>(*current)] = true;
    const std::optional<SpanNumber> party = links.last_party(*current);
    const Seconds from = std::min(until, party ? at(*current).transfer : at(*current).start);
    const Seconds to = std::min(until, at(*current).end);
    if (from < to) path.pieces.push_back({*current, {from, to}});
    until = from;
    current = links.last_predecessor(party.value_or(*current));
  }
  std::reverse(path.pieces.begin(), path.pieces.end());
  for (std::size_t i = 0; i < path.pieces.size(); ++i) {
    const PathPiece& piece = path.pieces[i];
    path.by_kind[static_cast<std::size_t>(at(piece.span).kind)] += piece.when.length();
    if (i > 0) path.unexplained += piece.when.begin - path.pieces[i - 1].when.end;
  }
  return path;
}

}  // namespace orrery::core

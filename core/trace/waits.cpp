#include "core/trace/waits.h"

#include <algorithm>
#include <map>

#include "core/trace/gap.h"
#include "core/trace/rank_timeline.h"

namespace orrery::core {

std::vector<WaitedFor> waited_for(const Trace& trace, int step) {
  std::map<Rank, Seconds> waited;
  for (const Gap& gap : find_gaps(trace, step)) {
    if (!gap.blamed || gap.cause == GapCause::WarmUp || gap.cause == GapCause::Drain) continue;
    const Span& span = trace.spans[static_cast<std::size_t>(*gap.blamed)];
    const Rank late = trace.lanes[static_cast<std::size_t>(span.lane)].rank;
    if (late == gap.rank) continue;
    waited[late] += gap.when.length() * ranks_represented(trace, gap.rank);
  }
  double ranks = 0;
  for (const Rank rank : recorded_ranks(trace)) ranks += ranks_represented(trace, rank);
  const Seconds all = step_interval(trace, step).length() * ranks;
  std::vector<WaitedFor> list;
  for (const auto& [rank, time] : waited) {
    list.push_back({rank, ranks_represented(trace, rank), time, time / all});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const WaitedFor& a, const WaitedFor& b) { return a.waited > b.waited; });
  return list;
}

}  // namespace orrery::core

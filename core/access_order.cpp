#include "core/access_order.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace orrery::core {
namespace {

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

bool conflict(const Access& a, const Access& b) {
  return (a.write || b.write) && a.first < b.first + b.count && b.first < a.first + a.count;
}

std::vector<BufferAccess> accesses_of(const Role& role, const Instruction& instruction,
                                      int position) {
  std::vector<BufferAccess> result;
  const auto add = [&](const View& view, bool write) {
    result.push_back({view.buffer, {view.first, view.count, position, instruction.stream, write}});
  };
  for (const View& view : instruction.reads) add(view, false);
  for (const View& view : instruction.writes) add(view, true);
  for (const BufferId buffer : instruction.frees) {
    add({buffer, 0, role.buffers[buffer.index()].elements(), {}}, true);
  }
  return result;
}

Instance instance_of(const Role& role, BufferId buffer, const Call& call, int call_index) {
  switch (role.buffers[buffer.index()].scope) {
    case BufferScope::Run:
      return {buffer, 0};
    case BufferScope::Microbatch:
      return {buffer, call.microbatch.value_or(0)};
    case BufferScope::Call:
      return {buffer, call_index};
  }
  return {buffer, 0};
}

void join(Clock& into, const Clock& other) {
  for (std::size_t s = 0; s < kStreams; ++s) into[s] = std::max(into[s], other[s]);
}

void TouchedRanges::record(const Access& mine) {
  const auto size_class = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(mine.count)));
  position_[{size_class, mine.first, mine.count, mine.write}] = mine.position;
}

int TouchedRanges::latest_conflict(const Access& mine) const {
  int latest = 0;
  for (auto at = position_.begin(); at != position_.end();) {
    const int size_class = at->first.size_class;
    // No range of this class that starts earlier reaches mine.
    const std::int64_t reach = mine.first - (std::int64_t{1} << size_class);
    at = position_.lower_bound({size_class, reach, 0, false});
    for (; at != position_.end() && at->first.size_class == size_class &&
           at->first.first < mine.first + mine.count;
         ++at) {
      const Range& range = at->first;
      if (conflict(mine, {range.first, range.count, at->second, mine.stream, range.write})) {
        latest = std::max(latest, at->second);
      }
    }
    at =
        position_.lower_bound({size_class + 1, std::numeric_limits<std::int64_t>::min(), 0, false});
  }
  return latest;
}

std::vector<int> Hazards::conflicts(Instance instance, const Access& mine,
                                    const Clock& clock) const {
  const auto found = accesses_.find(instance);
  if (found == accesses_.end()) return {};
  std::vector<int> result;
  for (const OfStream& other : found->second) {
    if (other.stream == mine.stream) continue;
    const int latest = other.ranges.latest_conflict(mine);
    if (latest > clock[index_of(other.stream)]) result.push_back(latest);
  }
  return result;
}

void Hazards::record(Instance instance, const Access& mine) {
  std::vector<OfStream>& streams = accesses_[instance];
  const auto same = [&](const OfStream& of) { return of.stream == mine.stream; };
  auto known = std::find_if(streams.begin(), streams.end(), same);
  if (known == streams.end()) known = streams.insert(known, {mine.stream, {}});
  known->ranges.record(mine);
}

Clock Clocks::before(Stream stream) const {
  const int previous = last_[index_of(stream)];
  return previous == 0 ? Clock{} : after(previous);
}

void Clocks::visit(Stream stream, Clock clock) {
  const int position = next_position();
  clock[index_of(stream)] = position;
  last_[index_of(stream)] = position;
  after_.push_back(clock);
}

}  // namespace orrery::core

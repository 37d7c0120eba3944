#include "engine/gather_results.h"

#include <limits>

#include "engine/message_tag.h"

namespace orrery::engine {

namespace {

using core::Rank;
using Clock = std::chrono::steady_clock;

void send(Communicator& communicator, Rank to, const void* data, std::size_t bytes) {
  const auto request = communicator.start_send(to, tag_of(MessageTag::Report), data, bytes);
  wait_until(communicator, [&] { return communicator.test(request); });
}

void receive(Communicator& communicator, Rank from, void* data, std::size_t bytes) {
  const auto request = communicator.start_receive(from, tag_of(MessageTag::Report), data, bytes);
  wait_until(communicator, [&] { return communicator.test(request); });
}

template <class Element>
void send(Communicator& communicator, Rank to, const std::vector<Element>& values) {
  const std::uint64_t count = values.size();
  send(communicator, to, &count, sizeof count);
  send(communicator, to, values.data(), values.size() * sizeof(Element));
}

template <class Element>
void receive(Communicator& communicator, Rank from, std::vector<Element>& values) {
  std::uint64_t count = 0;
  receive(communicator, from, &count, sizeof count);
  values.resize(count);
  receive(communicator, from, values.data(), values.size() * sizeof(Element));
}

std::int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

std::int64_t shard_elements(const core::Program& program, Rank rank) {
  const core::Role& role = program.role_of(rank);
  return role.buffers[role.shard.value().rows.index()].elements();
}

constexpr int kRoundTrips = 8;

// Answers rank 0's questions for the time, then hears how far this clock is ahead and the epoch.
Clock::time_point epoch_from_rank_0(Communicator& communicator) {
  for (int i = 0; i < kRoundTrips; ++i) {
    std::int64_t question = 0;
    receive(communicator, Rank(0), &question, sizeof question);
    const std::int64_t now = nanoseconds();
    send(communicator, Rank(0), &now, sizeof now);
  }
  std::int64_t epoch = 0;
  receive(communicator, Rank(0), &epoch, sizeof epoch);
  return Clock::time_point(std::chrono::nanoseconds(epoch));
}

// This rank's clock minus rank 0's, in nanoseconds.
std::int64_t clock_ahead(Communicator& communicator, Rank rank) {
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  std::int64_t ahead = 0;
  for (int i = 0; i < kRoundTrips; ++i) {
    const std::int64_t asked = nanoseconds();
    std::int64_t theirs = 0;
    send(communicator, rank, &asked, sizeof asked);
    receive(communicator, rank, &theirs, sizeof theirs);
    const std::int64_t heard = nanoseconds();
    if (heard - asked >= fastest) continue;
    fastest = heard - asked;
    ahead = theirs - (asked + fastest / 2);
  }
  // Within half a round trip of 0 the clocks are one.
  return std::abs(ahead) <= fastest / 2 ? 0 : ahead;
}

}  // namespace

Clock::time_point common_epoch(Communicator& communicator) {
  if (communicator.rank() != Rank(0)) return epoch_from_rank_0(communicator);
  std::vector<std::int64_t> ahead(static_cast<std::size_t>(communicator.ranks()), 0);
  for (int r = 1; r < communicator.ranks(); ++r) {
    ahead[static_cast<std::size_t>(r)] = clock_ahead(communicator, Rank(r));
  }
  const std::int64_t now = nanoseconds();
  for (int r = 1; r < communicator.ranks(); ++r) {
    const std::int64_t theirs = now + ahead[static_cast<std::size_t>(r)];
    send(communicator, Rank(r), &theirs, sizeof theirs);
  }
  return Clock::time_point(std::chrono::nanoseconds(now));
}

std::vector<RankResult> gather_results(Communicator& communicator, RankResult own) {
  const auto each = [](RankResult& result, const auto& visit) {
    visit(result.records);
    visit(result.memory);
    visit(result.step_start);
    visit(result.step_end);
    visit(result.loss);
  };
  if (communicator.rank() != Rank(0)) {
    each(own, [&](const auto& values) { send(communicator, Rank(0), values); });
    return {};
  }
  std::vector<RankResult> results(static_cast<std::size_t>(communicator.ranks()));
  results[0] = std::move(own);
  for (int r = 1; r < communicator.ranks(); ++r) {
    each(results[static_cast<std::size_t>(r)],
         [&](auto& values) { receive(communicator, Rank(r), values); });
  }
  return results;
}

std::optional<WeightAssembly> gather_weights(const core::Program& program,
                                             Communicator& communicator, const RankRun& run) {
  const auto part_bytes = [&](Rank rank) {
    const core::Role& role = program.role_of(rank);
    return static_cast<std::size_t>(role.buffers[role.parameters.values->index()].elements()) *
           sizeof(float);
  };
  const auto needed = [&](Rank rank) {
    return program.role_of(rank).parameters.values.has_value() &&
           WeightAssembly::needs(program, rank);
  };
  const auto shard_bytes = [&](Rank rank) {
    return static_cast<std::size_t>(shard_elements(program, rank)) * sizeof(float);
  };
  const Rank self = communicator.rank();
  if (self != Rank(0)) {
    if (program.role_of(self).shard) {
      send(communicator, Rank(0), run.shard_rows().data(), shard_bytes(self));
    }
    if (needed(self)) send(communicator, Rank(0), run.parameters(), part_bytes(self));
    return std::nullopt;
  }
  WeightAssembly assembly(program);
  std::vector<float> part;
  for (int r = 0; r < communicator.ranks(); ++r) {
    const Rank rank(r);
    if (program.role_of(rank).shard) {
      std::span<const float> rows = run.shard_rows();
      if (rank != self) {
        part.resize(static_cast<std::size_t>(shard_elements(program, rank)));
        receive(communicator, rank, part.data(), shard_bytes(rank));
        rows = part;
      }
      assembly.add_shard(*program.embedding, program.ranks[rank.index()].server.value(), rows);
    }
    if (!needed(rank)) continue;
    const float* values = run.parameters();
    if (rank != self) {
      part.resize(part_bytes(rank) / sizeof(float));
      receive(communicator, rank, part.data(), part_bytes(rank));
      values = part.data();
    }
    assembly.add(program, rank, values);
  }
  return assembly;
}

}  // namespace orrery::engine

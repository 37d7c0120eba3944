#include "tests/agreement/trace_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace orrery::agreement {
namespace {

using core::Rank;
using core::Seconds;
using core::Span;

using Key = std::tuple<Rank, int, int, int>;  ///< Rank, step, call, index.

class Agreement {
 public:
  Agreement(const core::Program& program, const core::Trace& trace) : program_(program) {
    for (const Span& span : trace.spans) {
      const Rank rank = trace.lanes[static_cast<std::size_t>(span.lane)].rank;
      const core::InstructionRef at = span.instruction;
      spans_[{rank, at.step, at.call, at.index}] = &span;
      steps_.insert(at.step);
      ranks_.insert(rank);
    }
  }

  std::vector<std::string> run() {
    for (const Rank rank : ranks_) {
      std::optional<Seconds> step_end;
      for (const int step : steps_) step_end = check_step(rank, step, step_end);
    }
    check_meetings();
    for (const int step : steps_) check_services(step);
    return std::move(faults_);
  }

 private:
  const Span* find(Rank rank, int step, int call, int index) const {
    const auto found = spans_.find({rank, step, call, index});
    return found == spans_.end() ? nullptr : found->second;
  }

  void fault(const Key& key, const std::string& what) {
    const auto [rank, step, call, index] = key;
    faults_.push_back(fmt::format("rank {} step {} call {} instruction {} ({}): {}", rank.value,
                                  step, call, index, program_.role_of(rank).at(call, index).label,
                                  what));
  }

  /// Calls f(call, index, instruction) in program order.
  template <class F>
  void for_each_instruction(Rank rank, F f) const {
    const core::Role& role = program_.role_of(rank);
    for (int c = 0; c < static_cast<int>(role.step.size()); ++c) {
      const auto& block = role.blocks[role.step[static_cast<std::size_t>(c)].block.index()];
      for (int i = 0; i < static_cast<int>(block.instructions.size()); ++i) {
        f(c, i, block.instructions[static_cast<std::size_t>(i)]);
      }
    }
  }

  /// Order, dependencies and completeness of one rank's step; returns its end.
  Seconds check_step(Rank rank, int step, std::optional<Seconds> previous_end) {
    std::map<core::Stream, const Span*> last;
    Seconds end;
    for_each_instruction(rank, [&](int c, int i, const core::Instruction& instruction) {
      const Span* span = find(rank, step, c, i);
      if (span == nullptr) return fault({rank, step, c, i}, "has no span");
      const auto after = [&](const Span* other, const char* which) {
        if (other != nullptr && span->start < other->end) {
          fault({rank, step, c, i}, fmt::format("starts {:.9f} s before {} has ended",
                                                (other->end - span->start).value, which));
        }
      };
      after(last[instruction.stream], "its predecessor on the stream");
      for (const int wait : instruction.waits) {
        after(find(rank, step, c, wait), "an instruction it waits for");
      }
      for (const core::CallWait& wait :
           program_.role_of(rank).step[static_cast<std::size_t>(c)].waits) {
        if (wait.instruction != i) continue;
        after(find(rank, step, wait.call, wait.other), "an instruction of another call");
      }
      if (previous_end && span->start < *previous_end) {
        fault({rank, step, c, i}, "starts before the previous step has ended");
      }
      last[instruction.stream] = span;
      end = std::max(end, span->end);
    });
    return end;
  }

  void check_meetings() {
    for (const int step : steps_) {
      std::map<std::tuple<int, core::Stream, int>, std::vector<Key>> collectives;
      std::map<std::tuple<Rank, Rank, core::Channel, int>, std::vector<Key>> messages;
      for (const Rank rank : ranks_) {
        const core::RankBinding& binding = program_.ranks[rank.index()];
        std::map<std::tuple<int, core::Stream>, int> nth_collective;
        std::map<std::tuple<Rank, Rank, core::Channel>, int> nth_message;
        const auto message = [&](Rank from, Rank to, core::Channel channel, const Key& key) {
          messages[{from, to, channel, nth_message[{from, to, channel}]++}].push_back(key);
        };
        for_each_instruction(rank, [&](int c, int i, const core::Instruction& instruction) {
          const Key key{rank, step, c, i};
          if (const auto* p = std::get_if<core::Collective>(&instruction.operation)) {
            const int group = binding.groups[p->group.index()].value;
            const int n = nth_collective[{group, instruction.stream}]++;
            collectives[{group, instruction.stream, n}].push_back(key);
          } else if (const auto* s = std::get_if<core::Send>(&instruction.operation)) {
            message(rank, binding.peers[s->peer.index()], s->channel, key);
          } else if (const auto* r = std::get_if<core::Receive>(&instruction.operation)) {
            message(binding.peers[r->peer.index()], rank, r->channel, key);
          }
        });
      }
      for (const auto& [where, parties] : collectives) {
        const auto group = static_cast<std::size_t>(std::get<0>(where));
        check_meeting(parties, program_.groups[group].members.size());
      }
      for (const auto& [where, parties] : messages) check_meeting(parties, 2);
    }
  }

  enum class Service { Pull, Push };
  using ServiceKey = std::tuple<Service, Rank, Rank, int>;  ///< Worker, server, which of them.

  /// What a worker's pull or push moves is what its servers move together.
  void check_services(int step) {
    std::map<ServiceKey, std::vector<Key>> meetings;
    std::map<Key, std::vector<Key>> servers_of;
    std::map<std::tuple<Service, Rank, Rank>, int> nth_at_worker, nth_at_server;
    for (const Rank rank : ranks_) {
      const core::RankBinding& binding = program_.ranks[rank.index()];
      for_each_instruction(rank, [&](int c, int i, const core::Instruction& instruction) {
        const Key key{rank, step, c, i};
        const auto ask = [&](Service service, core::GroupSlot slot) {
          for (const Rank server : program_.groups[binding.groups[slot.index()].index()].members) {
            const int n = nth_at_worker[{service, rank, server}]++;
            meetings[{service, rank, server, n}].push_back(key);
            servers_of[key] = {};
          }
        };
        const auto serve = [&](Service service, core::PeerSlot slot) {
          const Rank worker = binding.peers[slot.index()];
          const int n = nth_at_server[{service, worker, rank}]++;
          meetings[{service, worker, rank, n}].push_back(key);
        };
        const auto& operation = instruction.operation;
        if (const auto* pull = std::get_if<core::Pull>(&operation)) {
          ask(Service::Pull, pull->servers);
        } else if (const auto* push = std::get_if<core::Push>(&operation)) {
          ask(Service::Push, push->servers);
        } else if (const auto* answer = std::get_if<core::ServePull>(&operation)) {
          serve(Service::Pull, answer->worker);
        } else if (const auto* take = std::get_if<core::ServePush>(&operation)) {
          serve(Service::Push, take->worker);
        }
      });
    }
    for (const auto& [where, parties] : meetings) {
      if (parties.size() != 2) {
        fault(parties.front(), "is a pull or push without its other side");
        continue;
      }
      const bool worker_first = servers_of.contains(parties[0]);
      const Key& worker = parties[worker_first ? 0 : 1];
      const Key& server = parties[worker_first ? 1 : 0];
      servers_of[worker].push_back(server);
      const auto asks = spans_.find(worker);
      const auto serves = spans_.find(server);
      if (asks == spans_.end() || serves == spans_.end()) continue;  // Said already.
      if (asks->second->end < serves->second->start) fault(worker, "ends before it is served");
      if (serves->second->end < asks->second->start) fault(server, "ends before it is asked");
    }
    for (const auto& [worker, servers] : servers_of) check_shares(worker, servers);
  }

  void check_shares(const Key& worker, const std::vector<Key>& servers) {
    const auto asks = spans_.find(worker);
    if (asks == spans_.end()) return;
    core::Bytes sum;
    for (const Key& server : servers) {
      if (const auto serves = spans_.find(server); serves != spans_.end()) {
        sum += serves->second->bytes;
      }
    }
    constexpr double kRounding = 1e-12;  // Of a sum of expected, fractional sizes.
    const double bytes = asks->second->bytes.value;
    if (std::abs(bytes - sum.value) > kRounding * bytes || bytes <= 0.0) {
      fault(worker, fmt::format("moves {} B, its servers {} B", bytes, sum.value));
    }
  }

  void check_meeting(const std::vector<Key>& parties, std::size_t expected) {
    if (parties.size() != expected) {
      fault(parties.front(), fmt::format("{} parties of {} took part", parties.size(), expected));
      return;
    }
    std::vector<const Span*> spans;
    Seconds last_start;
    for (const Key& key : parties) {
      const auto found = spans_.find(key);
      if (found == spans_.end()) return;  // Said already: it has no span.
      spans.push_back(found->second);
      last_start = std::max(last_start, found->second->start);
    }
    for (std::size_t p = 0; p < parties.size(); ++p) {
      if (spans[p]->end < last_start) fault(parties[p], "ends before its last party started");
      if (spans[p]->bytes != spans[0]->bytes) {
        fault(parties[p], fmt::format("moves {} B here and {} B at another party",
                                      spans[p]->bytes.value, spans[0]->bytes.value));
      }
    }
  }

  const core::Program& program_;
  std::map<Key, const Span*> spans_;
  std::set<int> steps_;
  std::set<Rank> ranks_;
  std::vector<std::string> faults_;
};

}  // namespace

std::vector<std::string> trace_faults(const core::Program& program, const core::Trace& trace) {
  return Agreement(program, trace).run();
}

std::vector<std::string> order_of(const core::Trace& trace, int step) {
  std::vector<std::string> lines;
  for (const core::Lane& lane : trace.lanes) {
    lines.push_back(fmt::format("{} {}", lane.rank.value, core::stream_name(lane.stream)));
  }
  // By time: the trace itself keeps spans in program order, which would prove nothing.
  std::vector<const Span*> by_start;
  for (const Span& span : trace.spans) {
    if (span.instruction.step == step) by_start.push_back(&span);
  }
  std::stable_sort(by_start.begin(), by_start.end(), [](const Span* a, const Span* b) {
    return std::pair(a->start, a->end) < std::pair(b->start, b->end);
  });
  for (const Span* span : by_start) {
    lines[static_cast<std::size_t>(span->lane)] +=
        fmt::format(" {}.{}", span->instruction.call, span->instruction.index);
  }
  return lines;
}

}  // namespace orrery::agreement

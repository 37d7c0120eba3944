#include "core/trace.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace orrery::core {

std::string_view span_kind_name(SpanKind kind) {
  switch (kind) {
    case SpanKind::Load:
      return "load";
    case SpanKind::Forward:
      return "forward";
    case SpanKind::Recompute:
      return "recompute";
    case SpanKind::Backward:
      return "backward";
    case SpanKind::WeightGrad:
      return "weight gradient";
    case SpanKind::OptimizerStep:
      return "optimizer step";
    case SpanKind::TensorCommunication:
      return "tensor communication";
    case SpanKind::PipelineCommunication:
      return "pipeline communication";
    case SpanKind::DataCommunication:
      return "data communication";
    case SpanKind::ParameterServer:
      return "parameter server";
    case SpanKind::Serve:
      return "serve";
  }
  ORRERY_CHECK(false, "no such span kind");
}

bool is_communication(SpanKind kind) {
  return kind == SpanKind::TensorCommunication || kind == SpanKind::PipelineCommunication ||
         kind == SpanKind::DataCommunication || kind == SpanKind::ParameterServer;
}

namespace {

SpanKind kind_of_pass(Pass pass) {
  switch (pass) {
    case Pass::Load:
      return SpanKind::Load;
    case Pass::Forward:
      return SpanKind::Forward;
    case Pass::Recompute:
      return SpanKind::Recompute;
    case Pass::Backward:
      return SpanKind::Backward;
    case Pass::WeightGrad:
      return SpanKind::WeightGrad;
    case Pass::OptimizerStep:
      return SpanKind::OptimizerStep;
    case Pass::Serve:
      return SpanKind::Serve;
  }
  ORRERY_CHECK(false, "no such pass");
}

}  // namespace

SpanKind span_kind(const Instruction& instruction) {
  struct Kind {
    const Instruction& instruction;
    SpanKind operator()(const Compute&) const { return kind_of_pass(instruction.pass); }
    SpanKind operator()(const Collective&) const {
      return instruction.stream == Stream::Tensor ? SpanKind::TensorCommunication
                                                  : SpanKind::DataCommunication;
    }
    SpanKind operator()(const Send&) const { return SpanKind::PipelineCommunication; }
    SpanKind operator()(const Receive&) const { return SpanKind::PipelineCommunication; }
    SpanKind operator()(const Pull&) const { return SpanKind::ParameterServer; }
    SpanKind operator()(const Push&) const { return SpanKind::ParameterServer; }
    SpanKind operator()(const ServePull&) const { return SpanKind::Serve; }
    SpanKind operator()(const ServePush&) const { return SpanKind::Serve; }
  };
  return std::visit(Kind{instruction}, instruction.operation);
}

Seconds Trace::duration() const {
  Seconds latest;
  for (const Span& span : spans) latest = std::max(latest, span.end);
  return latest;
}

void TraceBuilder::add(Rank rank, InstructionRef instruction, Seconds start, Seconds transfer,
                       Seconds end, Bytes bytes) {
  records_.push_back({rank, instruction, start, transfer, end, bytes});
}

void TraceBuilder::stands_for(Rank rank, std::vector<Rank> others) {
  also_[rank] = std::move(others);
}

void TraceBuilder::add_counter(Counter counter) { counters_.push_back(std::move(counter)); }

void TraceBuilder::add_step(StepInfo step) { steps_.push_back(step); }

namespace {

/// Finds the span of an executed instruction: rank, then position in (step, call, index) order.
class SpanIndex {
 public:
  void add(Rank rank, InstructionRef instruction, std::int32_t span) {
    of_rank_[rank].push_back({instruction, span});
  }
  void sort() {
    for (auto& [rank, entries] : of_rank_) std::sort(entries.begin(), entries.end());
  }
  std::optional<std::int32_t> find(Rank rank, InstructionRef instruction) const {
    const auto& entries = of_rank_.at(rank);
    const Entry wanted{instruction, 0};
    const auto found = std::lower_bound(entries.begin(), entries.end(), wanted);
    if (found == entries.end() || found->first != instruction) return std::nullopt;
    return found->second;
  }
  using Entry = std::pair<InstructionRef, std::int32_t>;
  const std::map<Rank, std::vector<Entry>>& ranks() const { return of_rank_; }

 private:
  std::map<Rank, std::vector<Entry>> of_rank_;
};

void derive_dependencies(const Program& program, const SpanIndex& index, Trace& trace) {
  trace.dependency_begin.reserve(trace.spans.size() + 1);
  trace.dependency_begin.push_back(0);
  for (const Span& span : trace.spans) {
    const Rank rank = trace.lanes[static_cast<std::size_t>(span.lane)].rank;
    const Role& role = program.role_of(rank);
    const InstructionRef at = span.instruction;
    const auto depend_on = [&](InstructionRef other) {
      if (const auto found = index.find(rank, other)) trace.dependencies.push_back(*found);
    };
    for (int other : role.at(at.call, at.index).waits) depend_on({at.step, at.call, other});
    for (const CallWait& wait : role.step[static_cast<std::size_t>(at.call)].waits) {
      if (wait.instruction == at.index) depend_on({at.step, wait.call, wait.other});
    }
    trace.dependency_begin.push_back(static_cast<std::int64_t>(trace.dependencies.size()));
  }
}

/// Pairs the k-th producer on a channel with its k-th consumer.
class Matcher {
 public:
  enum class Kind { Activation, Gradient, Push, Pull };
  struct Key {
    int step;
    Kind kind;
    Rank from, to;
    auto operator<=>(const Key&) const = default;
  };
  void produce(Key key, std::int32_t span) { channels_[key].producers.push_back(span); }
  void consume(Key key, std::int32_t span) { channels_[key].consumers.push_back(span); }

  /// `bytes_of` names the span whose bytes travel: a message's, or the server's part of a push.
  void flows(Trace& trace) const {
    for (const auto& [key, channel] : channels_) {
      const std::size_t pairs = std::min(channel.producers.size(), channel.consumers.size());
      for (std::size_t k = 0; k < pairs; ++k) {
        const std::int32_t from = channel.producers[k];
        const std::int32_t to = channel.consumers[k];
        // A worker's push and pull reach all servers; what one server handles is on its span.
        const std::int32_t sized = key.kind == Kind::Push ? to : from;
        trace.flows.push_back({from, to, trace.spans[static_cast<std::size_t>(sized)].bytes});
      }
    }
    std::sort(trace.flows.begin(), trace.flows.end(), [](const Flow& a, const Flow& b) {
      return std::tie(a.from_span, a.to_span) < std::tie(b.from_span, b.to_span);
    });
  }

 private:
  struct Ends {
    std::vector<std::int32_t> producers, consumers;
  };
  std::map<Key, Ends> channels_;
};

Matcher::Kind kind_of(Channel channel) {
  return channel == Channel::Activation ? Matcher::Kind::Activation : Matcher::Kind::Gradient;
}

/// Enters one executed instruction at its end or ends of the channels it uses.
struct ChannelEnds {
  const Program& program;
  Matcher& matcher;
  Rank rank;
  int step;
  std::int32_t span;

  Rank peer(PeerSlot slot) const { return program.ranks[rank.index()].peers[slot.index()]; }
  const std::vector<Rank>& members(GroupSlot slot) const {
    return program.groups[program.ranks[rank.index()].groups[slot.index()].index()].members;
  }
  void operator()(const Compute&) const {}
  void operator()(const Collective&) const {}
  void operator()(const Send& send) const {
    matcher.produce({step, kind_of(send.channel), rank, peer(send.peer)}, span);
  }
  void operator()(const Receive& receive) const {
    matcher.consume({step, kind_of(receive.channel), peer(receive.peer), rank}, span);
  }
  void operator()(const Pull& pull) const {
    for (Rank server : members(pull.servers)) {
      matcher.consume({step, Matcher::Kind::Pull, server, rank}, span);
    }
  }
  void operator()(const Push& push) const {
    for (Rank server : members(push.servers)) {
      matcher.produce({step, Matcher::Kind::Push, rank, server}, span);
    }
  }
  void operator()(const ServePull& serve) const {
    matcher.produce({step, Matcher::Kind::Pull, rank, peer(serve.worker)}, span);
  }
  void operator()(const ServePush& serve) const {
    matcher.consume({step, Matcher::Kind::Push, peer(serve.worker), rank}, span);
  }
};

void derive_flows(const Program& program, const SpanIndex& index, Trace& trace) {
  Matcher matcher;
  for (const auto& [rank, entries] : index.ranks()) {
    const Role& role = program.role_of(rank);
    for (const auto& [at, span] : entries) {
      std::visit(ChannelEnds{program, matcher, rank, at.step, span},
                 role.at(at.call, at.index).operation);
    }
  }
  matcher.flows(trace);
}

/// The k-th collective of a group on a stream at one member meets the k-th at every other.
void derive_collectives(const Program& program, const SpanIndex& index, Trace& trace) {
  using Key = std::tuple<int, GroupId, Stream, int>;  // step, group, stream, k
  std::map<Key, std::vector<std::int32_t>> meetings;
  for (const auto& [rank, entries] : index.ranks()) {
    const Role& role = program.role_of(rank);
    std::map<std::tuple<int, GroupId, Stream>, int> seen;
    for (const auto& [at, span] : entries) {
      const Instruction& instruction = role.at(at.call, at.index);
      const auto* collective = std::get_if<Collective>(&instruction.operation);
      if (collective == nullptr) continue;
      const GroupId group = program.ranks[rank.index()].groups[collective->group.index()];
      const int k = seen[{at.step, group, instruction.stream}]++;
      meetings[{at.step, group, instruction.stream, k}].push_back(span);
    }
  }
  trace.collective_begin.push_back(0);
  for (const auto& [key, spans] : meetings) {
    trace.collective_spans.insert(trace.collective_spans.end(), spans.begin(), spans.end());
    trace.collective_begin.push_back(static_cast<std::int64_t>(trace.collective_spans.size()));
  }
}

/// Gives equal names one number, in the order of first use.
class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}
  std::int32_t intern(std::string name) {
    const auto [entry, is_new] =
        numbers_.try_emplace(std::move(name), static_cast<std::int32_t>(names_.size()));
    if (is_new) names_.push_back(entry->first);
    return entry->second;
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

std::string name_of(const Instruction& instruction) {
  std::string name(operation_name(instruction.operation));
  if (!instruction.label.empty()) name += " " + instruction.label;
  return name;
}

bool computes(const Instruction& instruction) {
  return std::holds_alternative<Compute>(instruction.operation);
}

std::optional<std::int32_t> microbatch_of(const Role& role, InstructionRef at) {
  const std::optional<int> microbatch = role.step[static_cast<std::size_t>(at.call)].microbatch;
  if (!microbatch) return std::nullopt;
  return static_cast<std::int32_t>(*microbatch);
}

}  // namespace

Trace TraceBuilder::build(bool simulated, std::map<std::string, std::string> about) {
  Trace trace;
  trace.simulated = simulated;
  trace.about = std::move(about);
  trace.counters = std::move(counters_);
  trace.steps = std::move(steps_);

  const auto instruction_of = [&](const Record& r) -> const Instruction& {
    return program_.role_of(r.rank).at(r.instruction.call, r.instruction.index);
  };
  const auto place = [&](const Record& r) {
    return std::tuple(r.rank, instruction_of(r).stream, r.instruction);
  };
  std::sort(records_.begin(), records_.end(),
            [&](const Record& a, const Record& b) { return place(a) < place(b); });

  NameTable names(trace.names);
  SpanIndex index;
  trace.spans.reserve(records_.size());
  for (const Record& r : records_) {
    const Instruction& instruction = instruction_of(r);
    if (trace.lanes.empty() || trace.lanes.back().rank != r.rank ||
        trace.lanes.back().stream != instruction.stream) {
      const auto also = also_.find(r.rank);
      trace.lanes.push_back(
          {r.rank, instruction.stream, also == also_.end() ? std::vector<Rank>() : also->second});
    }
    const auto number = static_cast<std::int32_t>(trace.spans.size());
    index.add(r.rank, r.instruction, number);
    trace.spans.push_back({.lane = static_cast<std::int32_t>(trace.lanes.size()) - 1,
                           .name = names.intern(name_of(instruction)),
                           .kind = span_kind(instruction),
                           .instruction = r.instruction,
                           .microbatch = microbatch_of(program_.role_of(r.rank), r.instruction),
                           .start = r.start,
                           .transfer = computes(instruction) ? r.start : r.transfer,
                           .end = r.end,
                           .bytes = r.bytes});
  }
  records_.clear();
  index.sort();
  derive_dependencies(program_, index, trace);
  derive_flows(program_, index, trace);
  derive_collectives(program_, index, trace);
  return trace;
}

}  // namespace orrery::core

#include "core/trace.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/meeting.h"

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
    case SpanKind::ContextCommunication:
      return "context communication";
    case SpanKind::ExpertCommunication:
      return "expert communication";
    case SpanKind::PipelineCommunication:
      return "pipeline communication";
    case SpanKind::ParameterGather:
      return "parameter gather";
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
  switch (kind) {
    case SpanKind::TensorCommunication:
    case SpanKind::ContextCommunication:
    case SpanKind::ExpertCommunication:
    case SpanKind::PipelineCommunication:
    case SpanKind::ParameterGather:
    case SpanKind::DataCommunication:
    case SpanKind::ParameterServer:
      return true;
    case SpanKind::Load:
    case SpanKind::Forward:
    case SpanKind::Recompute:
    case SpanKind::Backward:
    case SpanKind::WeightGrad:
    case SpanKind::OptimizerStep:
    case SpanKind::Serve:
      return false;
  }
  ORRERY_CHECK(false, "no such span kind");
}

SpanKind communication_kind(Stream stream) {
  switch (stream) {
    case Stream::Tensor:
      return SpanKind::TensorCommunication;
    case Stream::Context:
    case Stream::SendContext:
    case Stream::ReceiveContext:
      return SpanKind::ContextCommunication;
    case Stream::Expert:
      return SpanKind::ExpertCommunication;
    case Stream::SendActivation:
    case Stream::ReceiveActivation:
    case Stream::SendGradient:
    case Stream::ReceiveGradient:
      return SpanKind::PipelineCommunication;
    case Stream::Gather:
      return SpanKind::ParameterGather;
    case Stream::Data:
      return SpanKind::DataCommunication;
    case Stream::ParameterServer:
      return SpanKind::ParameterServer;
    case Stream::Serve:
      return SpanKind::Serve;
    case Stream::Compute:
    case Stream::Host:
      ORRERY_CHECK(false, "no communication runs on this stream");
  }
  ORRERY_CHECK(false, "no such stream");
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
  const bool computes = std::holds_alternative<Compute>(instruction.operation);
  return computes ? kind_of_pass(instruction.pass) : communication_kind(instruction.stream);
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

/// The spans that came to one place in one step, in the order of their ranks and, for one rank, of
/// their coming; those that come as the second of two parties apart.
struct Visits {
  std::vector<std::int32_t> first, second;
};
using VisitsByPlace = std::map<std::pair<int, MeetingPlace>, Visits>;  // By step and place.

VisitsByPlace visits_of(const Program& program, const SpanIndex& index) {
  VisitsByPlace visits;
  for (const auto& [rank, entries] : index.ranks()) {
    const Role& role = program.role_of(rank);
    for (const auto& [at, span] : entries) {
      const Instruction& instruction = role.at(at.call, at.index);
      for (const MeetingPlace& place : meeting_places(program, rank, instruction)) {
        Visits& here = visits[{at.step, place}];
        (comes_second(instruction.operation) ? here.second : here.first).push_back(span);
      }
    }
  }
  return visits;
}

/// From whoever gives to whoever takes: the rows of a pull come from the server, its second party.
/// A worker's push and pull reach all servers, so what travels is on the server's span.
void add_flows(MeetingKind kind, const Visits& visits, Trace& trace) {
  const std::size_t meetings = std::min(visits.first.size(), visits.second.size());
  for (std::size_t k = 0; k < meetings; ++k) {
    const std::int32_t first = visits.first[k];
    const std::int32_t second = visits.second[k];
    const std::int32_t sized = kind == MeetingKind::Message ? first : second;
    const Bytes bytes = trace.spans[static_cast<std::size_t>(sized)].bytes;
    if (kind == MeetingKind::Pull) {
      trace.flows.push_back({second, first, bytes});
    } else {
      trace.flows.push_back({first, second, bytes});
    }
  }
}

/// The k-th span of every member.
void add_collectives(const std::vector<std::int32_t>& visits, Trace& trace) {
  std::map<Rank, std::vector<std::int32_t>> by_member;
  std::size_t meetings = 0;
  for (const std::int32_t span : visits) {
    const auto lane = static_cast<std::size_t>(trace.spans[static_cast<std::size_t>(span)].lane);
    std::vector<std::int32_t>& mine = by_member[trace.lanes[lane].rank];
    mine.push_back(span);
    meetings = std::max(meetings, mine.size());
  }
  for (std::size_t k = 0; k < meetings; ++k) {
    for (const auto& [member, spans] : by_member) {
      if (k < spans.size()) trace.collective_spans.push_back(spans[k]);
    }
    trace.collective_begin.push_back(static_cast<std::int64_t>(trace.collective_spans.size()));
  }
}

void derive_meetings(const Program& program, const SpanIndex& index, Trace& trace) {
  trace.collective_begin.push_back(0);
  for (const auto& [where, visits] : visits_of(program, index)) {
    const MeetingKind kind = where.second.kind;
    if (kind == MeetingKind::Collective) {
      add_collectives(visits.first, trace);
    } else {
      add_flows(kind, visits, trace);
    }
  }
  std::sort(trace.flows.begin(), trace.flows.end(), [](const Flow& a, const Flow& b) {
    return std::tie(a.from_span, a.to_span) < std::tie(b.from_span, b.to_span);
  });
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
  derive_meetings(program_, index, trace);
  return trace;
}

}  // namespace orrery::core

#include "costmodel/pass_outline.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "costmodel/compute_cost.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

core::Compute compute_of(core::Operator op, core::DType precision) {
  return {op, core::work_of(op, core::dtype_bytes(precision))};
}

/// What ranks that share do of it in all, and what each of them does.
core::Operator shared_by_all(core::Operator op, int sharding) {
  if (auto* sum = std::get_if<core::Accumulate>(&op)) sum->count *= sharding;
  return op;
}
core::Operator own_share(core::Operator op, int sharding) {
  if (auto* sum = std::get_if<core::Accumulate>(&op)) sum->count /= sharding;
  return op;
}

/// Bytes of a message or collective over a view: as they grow with its buffer.
ScaledBytes bytes_of(core::Bytes bytes, const core::Instruction& instruction,
                     const ScaledStage& stage) {
  const auto& views = instruction.reads.empty() ? instruction.writes : instruction.reads;
  const ScaledBytes& whole = stage.buffers[views.front().buffer.index()];
  if (whole.scaled == core::Bytes(0)) return {bytes, core::Bytes(0)};
  ORRERY_CHECK(whole.fixed == core::Bytes(0), "a buffer of which a part grows");
  return {core::Bytes(0), bytes};
}

struct Message {
  core::Channel channel;
  core::Bytes bytes;
};

std::optional<Message> message_of(const core::Operation& operation) {
  if (const auto* send = std::get_if<core::Send>(&operation)) {
    return Message{send->channel, send->bytes};
  }
  if (const auto* receive = std::get_if<core::Receive>(&operation)) {
    return Message{receive->channel, receive->bytes};
  }
  return std::nullopt;
}

/// Where a timing keeps when the gradients of a part are complete, if it does.
std::optional<Seconds>* completion(PassTiming& timing, StagePart part) {
  switch (part.kind) {
    case StagePart::Kind::Embedding:
      return &timing.embedding;
    case StagePart::Kind::Head:
      return &timing.head;
    case StagePart::Kind::Layer:
      if (part.layer > 1) return nullptr;
      return part.layer == 0 ? &timing.first_layer : &timing.second_layer;
  }
  core::check_failed("StagePart", "unknown part", __FILE__, __LINE__);
}

/// How long a pass computes while other streams are busy.
Seconds beside(const PassOutline& pass, const std::vector<Seconds>& ends,
               const std::vector<Seconds>& durations) {
  std::vector<std::pair<Seconds, Seconds>> computing, communicating;
  for (std::size_t i = 0; i < pass.items.size(); ++i) {
    const PassItem& item = pass.items[i];
    if (!item.action) continue;
    const bool computes = item.stream == core::Stream::Compute;
    (computes ? computing : communicating).emplace_back(ends[i] - durations[*item.action], ends[i]);
  }
  std::sort(communicating.begin(), communicating.end());
  Seconds sum;
  Seconds counted;  // Up to here.
  auto compute = computing.begin();
  for (const auto& [from, to] : communicating) {
    const Seconds begin = std::max(from, counted);
    counted = std::max(counted, to);
    while (compute != computing.end() && compute->second <= begin) ++compute;
    for (auto c = compute; c != computing.end() && c->first < to; ++c) {
      sum += std::max(Seconds(0), std::min(c->second, to) - std::max(c->first, begin));
    }
  }
  return sum;
}

void lengthen(PassTiming& timing, Seconds more) {
  if (!(timing.makespan > Seconds(0))) return;
  const double factor = (timing.makespan + more) / timing.makespan;
  timing.makespan += more;
  timing.compute += more;
  timing.ahead *= factor;
  for (std::optional<Seconds>* done :
       {&timing.embedding, &timing.first_layer, &timing.second_layer, &timing.head}) {
    if (*done) **done *= factor;
  }
}

}  // namespace

core::Operator with_rows_times(core::Operator op, int times) {
  std::visit(
      [times](auto& o) {
        if constexpr (requires { o.rows; }) o.rows *= times;
        if constexpr (requires { o.tokens; }) o.tokens *= times;
        if constexpr (requires { o.sequences; }) o.sequences *= times;
        if constexpr (requires { o.capacity; }) o.capacity *= times;
      },
      op);
  return op;
}

PassTiming timing_of(const PassOutline& pass, const std::vector<Seconds>& durations,
                     const PassConditions& conditions) {
  PassTiming result;
  std::array<Seconds, core::kStreams> free{};
  std::vector<Seconds> ends(pass.items.size());
  bool began = false;
  Seconds last;
  std::uint32_t wait = 0;
  for (std::size_t i = 0; i < pass.items.size(); ++i) {
    const PassItem& item = pass.items[i];
    Seconds& stream = free[static_cast<std::size_t>(item.stream)];
    const Seconds was_free = stream;
    core::Stream awaited = item.stream;
    for (; wait < item.waits_end; ++wait) {
      const std::uint32_t other = pass.waits[wait];
      if (ends[other] <= stream) continue;
      stream = ends[other];
      awaited = pass.items[other].stream;
    }
    if (item.stream == core::Stream::Compute && stream > was_free) {
      const core::SpanKind kind = core::communication_kind(awaited);
      result.waits[static_cast<std::size_t>(kind)] += stream - was_free;
    }
    const Seconds duration = item.action ? durations[*item.action] : Seconds(0);
    const bool blocks = conditions.blocking == TensorBlocking::Everything ||
                        (conditions.blocking == TensorBlocking::Recomputation && item.recomputes);
    if (blocks && item.stream == core::Stream::Tensor) {
      Seconds& computing = free[static_cast<std::size_t>(core::Stream::Compute)];
      stream = std::max(stream, computing);
      const core::SpanKind kind = core::communication_kind(item.stream);
      result.waits[static_cast<std::size_t>(kind)] += stream + duration - computing;
      computing = stream + duration;
    }
    stream += duration;
    ends[i] = stream;
    result.busy[static_cast<std::size_t>(item.stream)] += duration;
    if (item.completes) {
      if (std::optional<Seconds>* done = completion(result, *item.completes)) {
        *done = std::max(done->value_or(Seconds(0)), stream);
      }
    }
    if (item.stream != core::Stream::Compute) continue;
    last = duration;
    result.compute += duration;
    // The first instruction of the pass proper starts where its recomputation ended.
    if (!began && !item.recomputes) {
      began = true;
      result.ahead = stream - duration;
    }
    if (item.recomputes) result.recompute += duration;
  }
  result.makespan = free[static_cast<std::size_t>(core::Stream::Compute)];
  if (conditions.beside > 1.0) {
    lengthen(result, beside(pass, ends, durations) * (conditions.beside - 1.0));
  }
  result.issued = std::max(pass.issued + last, pass.all_issued);
  return result;
}

StageOutliner::Likeness StageOutliner::likeness(const core::Compute& compute) {
  const std::vector<core::MatmulShape> products = core::matmuls_of(compute.op);
  const core::MatmulShape shape = products.empty() ? core::MatmulShape{} : products.front();
  const core::Work& work = compute.work;
  return {compute.op.index(), work.matmul, work.vector, work.memory, shape.m, shape.n, shape.k};
}

std::size_t StageOutliner::index_of(const core::Compute& compute, int sharding) {
  const Likeness mine = likeness(compute);
  const auto known = std::find(likenesses_.begin(), likenesses_.end(), mine);
  const auto index = static_cast<std::size_t>(known - likenesses_.begin());
  if (known == likenesses_.end()) {
    actions_.push_back({shared_by_all(compute.op, sharding)});
    likenesses_.emplace_back(mine);
  }
  return index;
}

template <class Action>
std::size_t StageOutliner::index_of(const Action& action) {
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const auto* other = std::get_if<Action>(&actions_[i].what);
    if (other != nullptr && *other == action) return i;
  }
  actions_.push_back({action});
  likenesses_.emplace_back();
  return actions_.size() - 1;
}

std::optional<std::size_t> StageOutliner::action_of(const core::Instruction& instruction,
                                                    const ScaledStage& stage) {
  if (instruction.stream == core::Stream::Host) return std::nullopt;
  if (const auto* compute = std::get_if<core::Compute>(&instruction.operation)) {
    return index_of(*compute, stage.sharding);
  }
  if (const auto* collective = std::get_if<core::Collective>(&instruction.operation)) {
    const core::GroupKind group = stage.role.group_slots[collective->group.index()];
    const ScaledBytes bytes = bytes_of(collective->bytes, instruction, stage);
    return index_of(PassAction::InGroup{collective->kind, group, bytes});
  }
  // Keys and values go round the context group within a pass; other messages are the pipeline's.
  const std::optional<Message> message = message_of(instruction.operation);
  if (!message || message->channel != core::Channel::Context) return std::nullopt;
  return index_of(PassAction::Hop{bytes_of(message->bytes, instruction, stage)});
}

PassOutline StageOutliner::outline(const core::Block& block, const ScaledStage& stage) {
  PassOutline result;
  for (const core::Instruction& instruction : block.instructions) {
    for (const int wait : instruction.waits) {
      result.waits.push_back(static_cast<std::uint32_t>(wait));
    }
    result.items.push_back(
        {.stream = instruction.stream,
         .recomputes = instruction.pass == core::Pass::Recompute,
         .action = action_of(instruction, stage),
         .waits_end = static_cast<std::uint32_t>(result.waits.size()),
         .completes = part_of(instruction.writes, stage.role.parameters, false)});
    result.all_issued += issue_time(instruction, device_, precision_);
    if (instruction.stream == core::Stream::Compute) result.issued = result.all_issued;
  }
  return result;
}

StageOutline StageOutliner::outline(const ScaledStage& stage) {
  StageOutline result;
  for (const core::Block* pass : pass_blocks(stage.role)) {
    result.passes.push_back(outline(*pass, stage));
    for (const core::Instruction& instruction : pass->instructions) {
      const std::optional<Message> message = message_of(instruction.operation);
      if (!message || message->channel == core::Channel::Context) continue;
      const ScaledBytes bytes = bytes_of(message->bytes, instruction, stage);
      if (bytes.at(1.0) > result.message.at(1.0)) result.message = bytes;
    }
  }
  return result;
}

Seconds StageOutliner::duration(const PassAction& action, const Question& question,
                                const PlanGroups& groups, const FabricCost& fabric) const {
  const int scale = question.scale;
  if (const auto* op = std::get_if<core::Operator>(&action.what)) {
    const core::Operator own = with_rows_times(own_share(*op, question.sharding), scale);
    return compute_time(compute_of(own, precision_), device_, precision_);
  }
  if (const auto* collective = std::get_if<PassAction::InGroup>(&action.what)) {
    return collective_time(collective->kind, collective->bytes.at(scale),
                           groups.of(collective->group), fabric);
  }
  return ring_hop_time(std::get<PassAction::Hop>(action.what).bytes.at(scale),
                       groups.of(core::GroupKind::Context).shared, fabric);
}

std::vector<Seconds> StageOutliner::durations(const Question& question, const PlanGroups& groups,
                                              const FabricCost& fabric) const {
  std::vector<Seconds> result;
  result.reserve(actions_.size());
  for (const PassAction& action : actions_) {
    result.push_back(duration(action, question, groups, fabric));
  }
  return result;
}

}  // namespace orrery::costmodel

#include "costmodel/pass_outline.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/interference.h"
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

/// When each item of a pass runs.
struct ItemTimes {
  explicit ItemTimes(std::size_t items) : start(items), end(items) {}
  std::vector<Seconds> start, end;
};

/// Whether nothing is computed while the item runs, as if it were on that stream too.
bool blocks(const PassItem& item, TensorBlocking blocking) {
  return item.stream == core::Stream::Tensor &&
         (blocking == TensorBlocking::Everything ||
          (blocking == TensorBlocking::Recomputation && item.recomputes));
}

Seconds duration_of(const PassItem& item, const std::vector<Seconds>& durations) {
  return item.action ? durations[*item.action] : Seconds(0);
}

/// Where nothing takes longer beside other streams.
ItemTimes undisturbed(const PassOutline& pass, const std::vector<Seconds>& durations,
                      TensorBlocking blocking) {
  ItemTimes times(pass.items.size());
  std::array<Seconds, core::kStreams> free{};
  Seconds& computing = free[static_cast<std::size_t>(core::Stream::Compute)];
  std::uint32_t wait = 0;
  for (std::size_t i = 0; i < pass.items.size(); ++i) {
    const PassItem& item = pass.items[i];
    Seconds& stream = free[static_cast<std::size_t>(item.stream)];
    for (; wait < item.waits_end; ++wait) {
      stream = std::max(stream, times.end[pass.waits[wait]]);
    }
    const bool holds_up = blocks(item, blocking);
    if (holds_up) stream = std::max(stream, computing);
    times.start[i] = stream;
    stream += duration_of(item, durations);
    if (holds_up) computing = stream;
    times.end[i] = stream;
  }
  return times;
}

/// A pass whose computing takes longer beside communication, event by event.
class DisturbedPass {
 public:
  DisturbedPass(const PassOutline& pass, const std::vector<Seconds>& durations,
                const PassConditions& conditions)
      : pass_(pass),
        durations_(durations),
        blocking_(conditions.blocking),
        computing_(conditions.beside),
        times_(pass.items.size()),
        ended_(pass.items.size(), false) {
    for (std::size_t i = 0; i < pass.items.size(); ++i) {
      queue(pass.items[i].stream).items.push_back(i);
      if (blocks(pass.items[i], blocking_)) queue(core::Stream::Compute).items.push_back(i);
    }
  }

  ItemTimes run() {
    for (std::size_t done = 0; done < pass_.items.size(); ++done) {
      while (start_some()) {
      }
      end_next();
    }
    return std::move(times_);
  }

 private:
  struct Queue {
    std::vector<std::size_t> items;
    std::size_t next = 0;
    bool busy = false;
    bool holds(std::size_t item) const { return next < items.size() && items[next] == item; }
  };
  Queue& queue(core::Stream stream) { return queues_[static_cast<std::size_t>(stream)]; }

  bool may_start(std::size_t i) {
    const PassItem& item = pass_.items[i];
    const Queue& computing = queue(core::Stream::Compute);
    if (blocks(item, blocking_) && (computing.busy || !computing.holds(i))) return false;
    if (!queue(item.stream).holds(i)) return false;
    const std::uint32_t first = i == 0 ? 0 : pass_.items[i - 1].waits_end;
    return std::all_of(pass_.waits.begin() + first, pass_.waits.begin() + item.waits_end,
                       [this](std::uint32_t other) { return ended_[other]; });
  }

  bool start_some() {
    bool any = false;
    for (Queue& queue : queues_) {
      if (queue.busy || queue.next == queue.items.size()) continue;
      const std::size_t i = queue.items[queue.next];
      if (!may_start(i)) continue;
      start(i);
      any = true;
    }
    return any;
  }

  void start(std::size_t i) {
    const PassItem& item = pass_.items[i];
    const Seconds duration = duration_of(item, durations_);
    times_.start[i] = now_;
    times_.end[i] = now_ + duration;
    queue(item.stream).busy = true;
    if (blocks(item, blocking_)) queue(core::Stream::Compute).busy = true;
    if (item.stream == core::Stream::Compute) computing_.compute(now_, duration);
    if (core::takes_from_computing(item.stream)) computing_.communication_starts(now_);
  }

  Seconds end_of(std::size_t i) const {
    return pass_.items[i].stream == core::Stream::Compute ? computing_.end() : times_.end[i];
  }

  void end_next() {
    std::optional<std::size_t> first;
    for (const Queue& queue : queues_) {
      if (!queue.busy) continue;
      const std::size_t i = queue.items[queue.next];
      if (!first || end_of(i) < end_of(*first)) first = i;
    }
    ORRERY_CHECK(first.has_value(), "a pass waits for itself");
    const PassItem& item = pass_.items[*first];
    now_ = times_.end[*first] = end_of(*first);
    ended_[*first] = true;
    for (const core::Stream stream : {item.stream, core::Stream::Compute}) {
      Queue& done = queue(stream);
      if (!done.busy || !done.holds(*first)) continue;
      done.busy = false;
      ++done.next;
    }
    if (item.stream == core::Stream::Compute) computing_.stop_computing();
    if (core::takes_from_computing(item.stream)) computing_.communication_ends(now_);
  }

  const PassOutline& pass_;
  const std::vector<Seconds>& durations_;
  TensorBlocking blocking_;
  core::BesideCommunication computing_;
  ItemTimes times_;
  std::vector<bool> ended_;
  std::array<Queue, core::kStreams> queues_;
  Seconds now_;
};

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
  const ItemTimes times = conditions.beside > 1.0
                              ? DisturbedPass(pass, durations, conditions).run()
                              : undisturbed(pass, durations, conditions.blocking);
  PassTiming result;
  bool began = false;
  Seconds last;
  std::uint32_t wait = 0;
  Seconds& computed = result.makespan;  // Up to where the compute stream has come.
  const auto waits_for = [&](core::Stream stream) -> Seconds& {
    return result.waits[static_cast<std::size_t>(core::communication_kind(stream))];
  };
  for (std::size_t i = 0; i < pass.items.size(); ++i) {
    const PassItem& item = pass.items[i];
    const std::uint32_t first_wait = std::exchange(wait, item.waits_end);
    const Seconds start = times.start[i], end = times.end[i];
    const Seconds duration = duration_of(item, durations);
    result.busy[static_cast<std::size_t>(item.stream)] += duration;
    if (item.completes) {
      if (std::optional<Seconds>* done = completion(result, *item.completes)) {
        *done = std::max(done->value_or(Seconds(0)), end);
      }
    }
    if (blocks(item, conditions.blocking)) {
      waits_for(item.stream) += end - computed;
      computed = end;
    }
    if (item.stream != core::Stream::Compute) continue;
    if (start > computed) {
      // Of all that it waits for, what ends last.
      const auto awaited = std::max_element(
          pass.waits.begin() + first_wait, pass.waits.begin() + item.waits_end,
          [&](std::uint32_t a, std::uint32_t b) { return times.end[a] < times.end[b]; });
      waits_for(pass.items[*awaited].stream) += start - computed;
    }
    computed = end;
    last = duration;
    result.compute += duration;
    result.interference += end - start - duration;
    // The first instruction of the pass proper starts where its recomputation ended.
    if (!began && !item.recomputes) {
      began = true;
      result.ahead = start;
    }
    if (item.recomputes) result.recompute += duration;
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

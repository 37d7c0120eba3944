#include "core/lowering/message_bounds.h"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/error.h"

namespace orrery::core {
namespace {

struct Place {
  int call = 0;
  int index = 0;
};

/// First and last instruction of a block's compute stream.
struct ComputeRange {
  int first = 0;
  int last = 0;
};

ComputeRange compute_range(const Block& block) {
  std::optional<ComputeRange> range;
  for (int i = 0; i < static_cast<int>(block.instructions.size()); ++i) {
    if (block.instructions[static_cast<std::size_t>(i)].stream != Stream::Compute) continue;
    if (!range) range = ComputeRange{i, i};
    range->last = i;
  }
  ORRERY_CHECK(range.has_value(), "a block without a compute instruction");
  return *range;
}

/// Keys and values in a context group: their buffers live throughout and bound them.
bool goes_round(const Instruction& instruction) {
  const auto* send = std::get_if<Send>(&instruction.operation);
  const auto* receive = std::get_if<Receive>(&instruction.operation);
  return (send != nullptr && send->channel == Channel::Context) ||
         (receive != nullptr && receive->channel == Channel::Context);
}

class Bounds {
 public:
  explicit Bounds(Role& role) : role_(role) {
    for (const Block& block : role.blocks) ranges_.push_back(compute_range(block));
  }

  void add() {
    for (int c = 0; c < static_cast<int>(role_.step.size()); ++c) {
      const Call& call = role_.step[static_cast<std::size_t>(c)];
      const auto& instructions = role_.blocks[call.block.index()].instructions;
      for (int i = 0; i < static_cast<int>(instructions.size()); ++i) {
        visit({c, i}, instructions[static_cast<std::size_t>(i)]);
      }
    }
  }

 private:
  void visit(Place at, const Instruction& instruction) {
    if (goes_round(instruction)) return;
    if (const auto* send = std::get_if<Send>(&instruction.operation)) {
      if (const auto over = next(instruction.stream, at)) compute_after(at.call, *over);
      if (send->channel == Channel::Activation) unanswered(at.call).push_back(at);
    }
    if (!fetches_ahead(instruction)) return;
    if (const auto over = next(instruction.stream, at)) {
      wait(at.call, {at.index, over->call, range_of(over->call).last});
    }
    const auto* receive = std::get_if<Receive>(&instruction.operation);
    if (receive == nullptr || receive->channel != Channel::Gradient) return;
    // The chunks' gradients come back in the opposite order.
    std::vector<Place>& sent = unanswered(at.call);
    if (sent.empty()) return;
    compute_after(at.call, sent.back());
    sent.pop_back();
  }

  /// The message of the stream that must be over before this one, kMessagesAhead before it.
  std::optional<Place> next(Stream stream, Place at) {
    std::deque<Place>& recent = recent_[static_cast<std::size_t>(stream)];
    recent.push_back(at);
    if (recent.size() <= static_cast<std::size_t>(kMessagesAhead)) return std::nullopt;
    const Place over = recent.front();
    recent.pop_front();
    return over;
  }

  /// Activations of the call's microbatch that were sent and whose gradient has not come.
  std::vector<Place>& unanswered(int call) {
    return unanswered_[role_.step[static_cast<std::size_t>(call)].microbatch.value_or(0)];
  }

  void compute_after(int call, Place sent) {
    wait(call, {range_of(call).first, sent.call, sent.index});
  }
  void wait(int call, CallWait wait) {
    role_.step[static_cast<std::size_t>(call)].waits.push_back(wait);
  }
  ComputeRange range_of(int call) const {
    return ranges_[role_.step[static_cast<std::size_t>(call)].block.index()];
  }

  Role& role_;
  std::vector<ComputeRange> ranges_;  ///< By block.
  std::array<std::deque<Place>, kStreams> recent_;
  std::map<int, std::vector<Place>> unanswered_;  ///< By microbatch.
};

}  // namespace

bool fetches_ahead(const Instruction& instruction) {
  return std::holds_alternative<Receive>(instruction.operation) ||
         instruction.stream == Stream::Host;
}

void bound_messages(Role& role) { Bounds(role).add(); }

void bound_fetches(Role& role, BlockId fetches, BlockId computes) {
  const int last = compute_range(role.blocks[computes.index()]).last;
  std::vector<int> fetched, computed;  // Calls.
  for (int c = 0; c < static_cast<int>(role.step.size()); ++c) {
    Call& call = role.step[static_cast<std::size_t>(c)];
    if (call.block == computes) computed.push_back(c);
    if (call.block != fetches) continue;
    const auto ahead = static_cast<std::size_t>(kMessagesAhead);
    if (fetched.size() >= ahead) call.waits.push_back({0, computed[fetched.size() - ahead], last});
    fetched.push_back(c);
  }
}

}  // namespace orrery::core

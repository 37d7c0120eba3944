#pragma once
// A role as one rank runs it: calls unrolled, buffer instances numbered, waits turned into counts.
// Everything the interpreter needs in its inner loop is an index into an array.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/program.h"

namespace orrery::engine {

/// A view of one buffer instance.
struct FlatOperand {
  std::int32_t slot = 0;   ///< Into RankProgram::slots.
  std::int64_t first = 0;  ///< Element, slice included.
  std::int64_t count = 0;
};

/// A range within one of RankProgram's arrays.
struct FlatRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

struct FlatInstruction {
  const core::Instruction* source = nullptr;
  std::int32_t call = 0;
  std::int32_t index = 0;
  std::optional<int> microbatch;
  core::Stream stream = core::Stream::Compute;
  bool computes = false;
  FlatRange reads, writes;  ///< Into operands.
  FlatRange frees;          ///< Into freed.
  FlatRange successors;     ///< Into successors: those that wait for this one.
  std::int32_t waits = 0;   ///< How many it waits for on other streams.
};

/// One instance of a buffer.
struct BufferSlot {
  core::BufferId buffer;
  std::int64_t bytes = 0;
  int element_bytes = 4;
  bool run_scope = false;
  std::int32_t size_class = 0;  ///< Slots of one class can take each other's memory.
};

/// One step of one rank.
struct RankProgram {
  const core::Program* program = nullptr;
  const core::Role* role = nullptr;
  const core::RankBinding* binding = nullptr;
  core::Rank rank;
  /// Of this rank in its groups, by GroupSlot; absent where it is none of the members (of servers).
  std::vector<std::optional<int>> positions;
  std::vector<FlatInstruction> instructions;  ///< In (call, index) order.
  std::vector<FlatOperand> operands;
  std::vector<std::int32_t> freed;
  std::vector<std::int32_t> successors;
  std::array<std::vector<std::int32_t>, core::kStreams> streams;  ///< Each in order.
  std::vector<BufferSlot> slots;
  std::int32_t size_classes = 0;
  /// Slot of a Run buffer.
  std::vector<std::optional<std::int32_t>> run_slots;  ///< By BufferId.

  /// Of this rank in a group; 0 without.
  int position(std::optional<core::GroupSlot> slot) const {
    return slot ? positions[slot->index()].value() : 0;
  }
  std::span<const FlatOperand> reads(const FlatInstruction& i) const { return of(i.reads); }
  std::span<const FlatOperand> writes(const FlatInstruction& i) const { return of(i.writes); }

 private:
  std::span<const FlatOperand> of(FlatRange range) const {
    return std::span(operands).subspan(static_cast<std::size_t>(range.begin),
                                       static_cast<std::size_t>(range.end - range.begin));
  }
};

/// Unrolls the step of `rank`. The Program outlives the result.
/// @throws SystemError where the Program is not sound (core/check/program_check.h says so
/// beforehand).
RankProgram unroll(const core::Program&, core::Rank);

}  // namespace orrery::engine

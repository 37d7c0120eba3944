#pragma once
// Memory of one rank's buffer instances. An instance is allocated by the first instruction that
// writes it and given back by the one that frees it; the memory is kept for the next instance of
// the same size, so that after the first step nothing is allocated.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/rank_program.h"

namespace orrery::engine {

class BufferPool {
 public:
  /// Allocates the Run buffers, zeroed. With `poison`, every other instance is filled with 0xFF
  /// (NaN as floats, −1 as integers) when it is allocated, so that a read of what nobody wrote
  /// shows.
  BufferPool(const RankProgram&, bool poison);

  /// Base of an instance; null where it is not live.
  std::byte* base(std::int32_t slot) const { return bases_[static_cast<std::size_t>(slot)]; }
  /// Makes the instance live, if it is not.
  std::byte* acquire(std::int32_t slot);
  void release(std::int32_t slot);

  std::int64_t live_bytes() const { return live_bytes_; }  ///< As core::memory_profile counts.
  std::int64_t peak_bytes() const { return peak_bytes_; }  ///< Largest live_bytes() so far.

 private:
  struct AlignedDelete {
    void operator()(std::byte* p) const;
  };
  std::byte* allocate(std::int64_t bytes);

  const std::vector<BufferSlot>* slots_;
  bool poison_;
  std::vector<std::byte*> bases_;              // By slot.
  std::vector<std::vector<std::byte*>> free_;  // By size class.
  std::vector<std::unique_ptr<std::byte, AlignedDelete>> owned_;
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace orrery::engine

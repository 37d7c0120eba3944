#include "engine/buffer_pool.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"

namespace orrery::engine {

namespace {
// A cache line, and the widest vector register (AVX-512) of the processors we run on.
constexpr std::size_t kAlignment = 64;
}  // namespace

void BufferPool::AlignedDelete::operator()(std::byte* p) const {
  ::operator delete(p, std::align_val_t(kAlignment));
}

BufferPool::BufferPool(const RankProgram& program, bool poison)
    : slots_(&program.slots),
      poison_(poison),
      bases_(program.slots.size(), nullptr),
      free_(static_cast<std::size_t>(program.size_classes)) {
  for (std::size_t i = 0; i < slots_->size(); ++i) {
    const BufferSlot& slot = (*slots_)[i];
    if (!slot.run_scope) continue;
    bases_[i] = allocate(slot.bytes);
    std::memset(bases_[i], 0, static_cast<std::size_t>(slot.bytes));
    live_bytes_ += slot.bytes;
  }
  peak_bytes_ = live_bytes_;
}

std::byte* BufferPool::allocate(std::int64_t bytes) {
  const auto size = std::max(static_cast<std::size_t>(bytes), kAlignment);
  try {
    owned_.emplace_back(
        static_cast<std::byte*>(::operator new(size, std::align_val_t(kAlignment))));
  } catch (const std::bad_alloc&) {
    throw core::SystemError("out of memory: " + std::to_string(bytes) + " bytes more than the " +
                            std::to_string(live_bytes_) + " in use");
  }
  return owned_.back().get();
}

std::byte* BufferPool::acquire(std::int32_t index) {
  std::byte*& base = bases_[static_cast<std::size_t>(index)];
  if (base != nullptr) return base;
  const BufferSlot& slot = (*slots_)[static_cast<std::size_t>(index)];
  auto& free = free_[static_cast<std::size_t>(slot.size_class)];
  if (free.empty()) {
    base = allocate(slot.bytes);
  } else {
    base = free.back();
    free.pop_back();
  }
  if (poison_) std::memset(base, 0xFF, static_cast<std::size_t>(slot.bytes));
  live_bytes_ += slot.bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  return base;
}

void BufferPool::release(std::int32_t index) {
  std::byte*& base = bases_[static_cast<std::size_t>(index)];
  const BufferSlot& slot = (*slots_)[static_cast<std::size_t>(index)];
  if (base == nullptr || slot.run_scope) return;
  free_[static_cast<std::size_t>(slot.size_class)].push_back(base);
  base = nullptr;
  live_bytes_ -= slot.bytes;
}

}  // namespace orrery::engine

#pragma once
// A min-heap of small integers whose keys may change: the ends of flows, which move whenever a rate
// does.

#include <cstddef>
#include <optional>
#include <vector>

namespace orrery::sim {

/// Members are indices 0, 1, ...; ties between equal keys go to the smaller index. Every operation
/// is O(log members).
class IndexedHeap {
 public:
  struct Entry {
    double key = 0;
    int index = 0;
  };

  bool empty() const { return heap_.empty(); }
  const Entry& least() const { return heap_.front(); }

  /// Adds `index`, or changes its key.
  void set(int index, double key) {
    const auto i = static_cast<std::size_t>(index);
    if (i >= place_.size()) place_.resize(i + 1);
    if (!place_[i]) {
      place_[i] = heap_.size();
      heap_.push_back({key, index});
      rise(*place_[i]);
      return;
    }
    const std::size_t at = *place_[i];
    const bool sooner = key < heap_[at].key;
    heap_[at].key = key;
    if (sooner) {
      rise(at);
    } else {
      sink(at);
    }
  }

  void remove_least() { remove(heap_.front().index); }

  /// Does nothing where `index` is no member.
  void remove(int index) {
    const auto i = static_cast<std::size_t>(index);
    if (i >= place_.size() || !place_[i]) return;
    const std::size_t at = *place_[i];
    place_[i].reset();
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    put(at, last);
    rise(at);
    sink(*place_[static_cast<std::size_t>(last.index)]);
  }

 private:
  // Four children a node: half the levels of a binary heap, in one cache line.
  static constexpr std::size_t kChildren = 4;

  static bool before(const Entry& a, const Entry& b) {
    return a.key < b.key || (a.key == b.key && a.index < b.index);
  }

  void put(std::size_t at, const Entry& entry) {
    heap_[at] = entry;
    place_[static_cast<std::size_t>(entry.index)] = at;
  }

  void rise(std::size_t at) {
    const Entry moving = heap_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!before(moving, heap_[parent])) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, moving);
  }

  void sink(std::size_t at) {
    const Entry moving = heap_[at];
    for (;;) {
      const std::size_t begin = at * kChildren + 1;
      const std::size_t end = begin + kChildren < heap_.size() ? begin + kChildren : heap_.size();
      if (begin >= end) break;
      std::size_t least = begin;
      for (std::size_t child = begin + 1; child < end; ++child) {
        if (before(heap_[child], heap_[least])) least = child;
      }
      if (!before(heap_[least], moving)) break;
      put(at, heap_[least]);
      at = least;
    }
    put(at, moving);
  }

  std::vector<Entry> heap_;
  std::vector<std::optional<std::size_t>> place_;  // By index.
};

}  // namespace orrery::sim

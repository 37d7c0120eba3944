#pragma once
// Pending events, soonest first. Ties are broken by the order of insertion, so a run is the same
// sequence of events every time.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "core/units.h"

namespace orrery::sim {

/// Min-heap by (time, sequence).
template <class Payload>
class EventQueue {
 public:
  struct Event {
    core::Seconds time;
    std::uint64_t sequence = 0;
    Payload payload;
  };

  bool empty() const { return heap_.empty(); }
  core::Seconds next_time() const { return heap_.front().time; }

  void push(core::Seconds time, Payload payload) {
    heap_.push_back({time, sequence_++, payload});
    std::push_heap(heap_.begin(), heap_.end(), Later());
  }

  Event pop() {
    ORRERY_CHECK(!heap_.empty(), "no event to pop");
    std::pop_heap(heap_.begin(), heap_.end(), Later());
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  struct Later {  // A type, not a function: the heap inlines it.
    bool operator()(const Event& a, const Event& b) const {
      if (a.time != b.time) return a.time > b.time;
      return a.sequence > b.sequence;
    }
  };

  std::vector<Event> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace orrery::sim

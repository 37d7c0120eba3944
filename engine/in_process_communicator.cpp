#include "engine/in_process_communicator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.h"

namespace orrery::engine {

using core::Rank;

namespace {

// Set by whichever thread copies the message, read by the thread that owns the request.
struct Slot {
  std::atomic<bool> done{false};
};

struct PendingSend {
  Rank from;
  int tag;
  const void* data;
  std::size_t bytes;
  Slot* slot;
};

struct PendingReceive {
  Rank from;
  int tag;
  void* data;
  std::size_t bytes;
  Slot* slot;
};

struct Match {
  PendingSend send;
  PendingReceive receive;
};

// Guarded by `mutex`, except the atomics, which are written under it and read without.
struct Endpoint {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<std::uint64_t> activity{0};
  std::atomic<bool> has_handed{false};
  bool idle = false;               // Its thread is in wait(): a sender leaves the copying to it.
  bool blocked = false;            // Its thread sleeps on `changed`.
  std::vector<PendingSend> sends;  // To this rank, no receive yet.
  std::vector<PendingReceive> receives;  // Of this rank, no send yet.
  std::vector<Match> handed;             // Left to this rank's thread to copy.
};

// Rounds of looking before a thread sleeps, where each rank has a core of its own: about 20 us, the
// order of what a sleep and a wake-up cost.
constexpr int kSpins = 1000;

void note_activity(Endpoint& endpoint) {
  bool wake = false;
  {
    const std::lock_guard lock(endpoint.mutex);
    endpoint.activity.fetch_add(1, std::memory_order_release);
    wake = endpoint.blocked;
  }
  if (wake) endpoint.changed.notify_one();
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

struct InProcessFabric::Shared {
  explicit Shared(int ranks) : endpoints(static_cast<std::size_t>(ranks)) {
    spins = static_cast<unsigned>(ranks) <= std::thread::hardware_concurrency() ? kSpins : 0;
  }

  std::deque<Endpoint> endpoints;
  int spins = 0;
  std::atomic<bool> aborted{false};
  std::mutex abort_mutex;
  std::string abort_reason;

  Endpoint& of(Rank rank) { return endpoints[rank.index()]; }
};

namespace {

class InProcessCommunicator final : public Communicator {
 public:
  InProcessCommunicator(InProcessFabric::Shared& shared, Rank rank)
      : shared_(shared), self_(rank), endpoint_(shared.of(rank)) {}

  Rank rank() const override { return self_; }
  int ranks() const override { return static_cast<int>(shared_.endpoints.size()); }

  Request start_send(Rank to, int tag, const void* data, std::size_t bytes) override {
    const std::uint32_t slot = take_slot();
    const PendingSend send{self_, tag, data, bytes, &slots_[slot]};
    Endpoint& peer = shared_.of(to);
    std::optional<PendingReceive> receive;
    bool hand_over = false;
    bool wake = false;
    {
      const std::lock_guard lock(peer.mutex);
      receive = take_receive(peer, tag);
      if (!receive) peer.sends.push_back(send);
      hand_over = receive && peer.idle;
      if (hand_over) {
        peer.handed.push_back({send, *receive});
        peer.has_handed.store(true, std::memory_order_release);
        peer.activity.fetch_add(1, std::memory_order_release);
        wake = peer.blocked;
      }
    }
    if (wake) peer.changed.notify_one();
    if (receive && !hand_over) copy({send, *receive}, to);
    return {slot};
  }

  Request start_receive(Rank from, int tag, void* data, std::size_t bytes) override {
    const std::uint32_t slot = take_slot();
    const PendingReceive receive{from, tag, data, bytes, &slots_[slot]};
    std::optional<PendingSend> send;
    {
      const std::lock_guard lock(endpoint_.mutex);
      const auto found = std::find_if(
          endpoint_.sends.begin(), endpoint_.sends.end(),
          [&](const PendingSend& other) { return other.from == from && other.tag == tag; });
      if (found == endpoint_.sends.end()) {
        endpoint_.receives.push_back(receive);
      } else {
        send = *found;
        endpoint_.sends.erase(found);
      }
    }
    if (send) copy({*send, receive}, self_);
    return {slot};
  }

  bool test(Request request) override {
    check_abort();
    copy_handed();
    Slot& slot = slots_[request.slot];
    if (!slot.done.load(std::memory_order_acquire)) return false;
    free_.push_back(request.slot);
    return true;
  }

  std::uint64_t activity() override { return endpoint_.activity.load(std::memory_order_acquire); }

  void wait(std::uint64_t seen) override {
    {
      const std::lock_guard lock(endpoint_.mutex);
      endpoint_.idle = true;
    }
    for (int i = 0; i < shared_.spins && !happened(seen); ++i) relax();
    {
      std::unique_lock lock(endpoint_.mutex);
      endpoint_.blocked = true;
      endpoint_.changed.wait(lock, [&] { return happened(seen); });
      endpoint_.blocked = false;
      endpoint_.idle = false;
    }
    check_abort();
  }

  void abort(const std::string& why) override {
    {
      const std::lock_guard lock(shared_.abort_mutex);
      if (!shared_.aborted.load()) shared_.abort_reason = why;
      shared_.aborted.store(true, std::memory_order_release);
    }
    for (Endpoint& endpoint : shared_.endpoints) note_activity(endpoint);
  }

 private:
  bool happened(std::uint64_t seen) const {
    return endpoint_.activity.load(std::memory_order_acquire) != seen ||
           shared_.aborted.load(std::memory_order_acquire);
  }

  void check_abort() const {
    if (!shared_.aborted.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(shared_.abort_mutex);
    throw core::SystemError(shared_.abort_reason);
  }

  std::uint32_t take_slot() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    slots_[slot].done.store(false, std::memory_order_relaxed);
    return slot;
  }

  std::optional<PendingReceive> take_receive(Endpoint& peer, int tag) const {
    const auto found = std::find_if(
        peer.receives.begin(), peer.receives.end(),
        [&](const PendingReceive& other) { return other.from == self_ && other.tag == tag; });
    if (found == peer.receives.end()) return std::nullopt;
    const PendingReceive receive = *found;
    peer.receives.erase(found);
    return receive;
  }

  // The last use of either buffer by this thread comes before the flags are set.
  void copy(const Match& match, Rank to) {
    ORRERY_CHECK(match.send.bytes == match.receive.bytes,
                 "rank " + std::to_string(match.send.from.value) + " sends " +
                     std::to_string(match.send.bytes) + " bytes, rank " + std::to_string(to.value) +
                     " receives " + std::to_string(match.receive.bytes));
    if (match.send.bytes != 0) std::memcpy(match.receive.data, match.send.data, match.send.bytes);
    match.receive.slot->done.store(true, std::memory_order_release);
    match.send.slot->done.store(true, std::memory_order_release);
    note_activity(shared_.of(to));
    if (to != match.send.from) note_activity(shared_.of(match.send.from));
  }

  void copy_handed() {
    if (!endpoint_.has_handed.load(std::memory_order_acquire)) return;
    {
      const std::lock_guard lock(endpoint_.mutex);
      copying_.swap(endpoint_.handed);
      endpoint_.has_handed.store(false, std::memory_order_release);
    }
    for (const Match& match : copying_) copy(match, self_);
    copying_.clear();
  }

  InProcessFabric::Shared& shared_;
  Rank self_;
  Endpoint& endpoint_;
  std::deque<Slot> slots_;  // Addresses stay: other threads set their flags.
  std::vector<std::uint32_t> free_;
  std::vector<Match> copying_;
};

}  // namespace

InProcessFabric::InProcessFabric(int ranks) : shared_(std::make_unique<Shared>(ranks)) {}
InProcessFabric::~InProcessFabric() = default;

int InProcessFabric::ranks() const { return static_cast<int>(shared_->endpoints.size()); }

std::unique_ptr<Communicator> InProcessFabric::communicator(Rank rank) {
  return std::make_unique<InProcessCommunicator>(*shared_, rank);
}

}  // namespace orrery::engine

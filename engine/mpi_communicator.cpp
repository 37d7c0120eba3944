#include "engine/mpi_communicator.h"

#ifdef ORRERY_MPI

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace orrery::engine {

using core::Rank;

namespace {

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw core::SystemError(std::string(what) + ": " + std::string(text, text + length));
}

// MPI counts bytes in an int: longer messages travel in pieces of 1 GiB, in order.
constexpr std::size_t kLargestPiece = std::size_t{1} << 30;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    // A communicator of its own keeps our tags apart from anybody else's.
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~MpiCommunicator() override { MPI_Comm_free(&comm_); }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  Rank rank() const override { return Rank(rank_); }
  int ranks() const override { return size_; }

  // Synchronous: done when the receiver has started too, which is what the Program means.
  Request start_send(Rank to, int tag, const void* data, std::size_t bytes) override {
    const std::uint32_t slot = take_slot();
    for_pieces(bytes, [&](std::size_t first, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Issend(static_cast<const std::byte*>(data) + first, count, MPI_BYTE, to.value, tag,
                       comm_, &request),
            "MPI_Issend");
      slots_[slot].pieces.push_back(request);
    });
    return {slot};
  }

  Request start_receive(Rank from, int tag, void* data, std::size_t bytes) override {
    const std::uint32_t slot = take_slot();
    for_pieces(bytes, [&](std::size_t first, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Irecv(static_cast<std::byte*>(data) + first, count, MPI_BYTE, from.value, tag,
                      comm_, &request),
            "MPI_Irecv");
      slots_[slot].pieces.push_back(request);
    });
    slots_[slot].expected = bytes;
    return {slot};
  }

  bool test(Request request) override {
    std::vector<MPI_Request>& pieces = slots_[request.slot].pieces;
    int done = 0;
    statuses_.resize(pieces.size());
    const int status =
        MPI_Testall(static_cast<int>(pieces.size()), pieces.data(), &done, statuses_.data());
    if (status == MPI_ERR_IN_STATUS) {
      for (const MPI_Status& piece : statuses_) {
        // What has not failed or ended yet is pending, which is no failure of its own.
        if (piece.MPI_ERROR != MPI_ERR_PENDING) check(piece.MPI_ERROR, "a message");
      }
    }
    check(status, "MPI_Testall");
    if (done == 0) return false;
    require_whole(slots_[request.slot]);
    slots_[request.slot] = {};
    free_.push_back(request.slot);
    return true;
  }

  // Only asking tells.
  std::uint64_t activity() override { return ++asked_; }

  // There may be more ranks than cores: let another one run.
  void wait(std::uint64_t) override { sched_yield(); }

  void abort(const std::string&) override {}

 private:
  template <class Start>
  static void for_pieces(std::size_t bytes, Start start) {
    std::size_t first = 0;
    do {
      const std::size_t count = std::min(kLargestPiece, bytes - first);
      start(first, static_cast<int>(count));
      first += count;
    } while (first < bytes);
  }

  /// A message under way.
  struct Message {
    std::vector<MPI_Request> pieces;
    std::optional<std::size_t> expected;  // Bytes, of a receive.
  };

  /// A sender that disagrees about the size would otherwise go unnoticed.
  void require_whole(const Message& message) const {
    if (!message.expected) return;
    std::size_t bytes = 0;
    for (const MPI_Status& piece : statuses_) {
      int count = 0;
      check(MPI_Get_count(&piece, MPI_BYTE, &count), "MPI_Get_count");
      bytes += static_cast<std::size_t>(count);
    }
    if (bytes == *message.expected) return;
    throw core::SystemError("MPI brought a message of " + std::to_string(bytes) + " B where " +
                            std::to_string(*message.expected) +
                            " B were expected; do all processes run the same orrery and plan?");
  }

  std::uint32_t take_slot() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::uint64_t asked_ = 0;
  std::vector<Message> slots_;
  std::vector<MPI_Status> statuses_;  // Of the pieces tested last.
  std::vector<std::uint32_t> free_;
};

}  // namespace

std::optional<int> launched_ranks() {
  // Open MPI; MPICH, Intel MPI and Slurm.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && std::atoi(value) > 0) return std::atoi(value);
  }
  return std::nullopt;
}

MpiSession::MpiSession() {
  int given = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
  if (given < MPI_THREAD_FUNNELED) throw core::SystemError("this MPI allows no threads at all");
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

Rank MpiSession::rank() const {
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return Rank(rank);
}

int MpiSession::ranks() const {
  int size = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

std::optional<Rank> MpiSession::lowest(bool mine) const {
  const int own = mine ? rank().value : std::numeric_limits<int>::max();
  int least = own;
  check(MPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  if (least == std::numeric_limits<int>::max()) return std::nullopt;
  return Rank(least);
}

int MpiSession::ranks_here() const {
  MPI_Comm here = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here),
        "MPI_Comm_split_type");
  int size = 0;
  check(MPI_Comm_size(here, &size), "MPI_Comm_size");
  MPI_Comm_free(&here);
  return size;
}

std::unique_ptr<Communicator> MpiSession::communicator() {
  return std::make_unique<MpiCommunicator>();
}

void MpiSession::abort(int exit_status) {
  MPI_Abort(MPI_COMM_WORLD, exit_status);
  std::abort();
}

}  // namespace orrery::engine

#endif

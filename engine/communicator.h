#pragma once
// Point-to-point messages between ranks, the only thing that the engine asks of a transport.
// Collectives (engine/collective.h) are built on it, so threads and MPI give the same bits.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/ids.h"

namespace orrery::engine {

/// One rank's end of a transport. Used by one thread. Nothing here blocks except wait().
class Communicator {
 public:
  /// A message under way.
  struct Request {
    std::uint32_t slot = 0;
  };

  virtual ~Communicator() = default;

  virtual core::Rank rank() const = 0;
  virtual int ranks() const = 0;

  /// Starts sending `bytes` bytes to rank `to` (itself too). The k-th send with a tag meets the
  /// k-th receive with that tag between the same two ranks (rendezvous); the request is done when
  /// the receiver has started too and the data may be overwritten.
  virtual Request start_send(core::Rank to, int tag, const void* data, std::size_t bytes) = 0;
  /// Starts receiving exactly `bytes` bytes; done when they have arrived.
  virtual Request start_receive(core::Rank from, int tag, void* data, std::size_t bytes) = 0;
  /// Whether the request is done. After it has said yes the request is gone: ask no more.
  /// @throws SystemError when another rank has failed, naming it.
  virtual bool test(Request) = 0;

  /// A count of what has happened to this rank's messages: while it stands still, test() would
  /// repeat its answers. A transport that cannot know counts every call.
  virtual std::uint64_t activity() = 0;
  /// Gives the processor away until activity() may differ from `seen`.
  /// @throws SystemError when another rank has failed, naming it.
  virtual void wait(std::uint64_t seen) = 0;

  /// Tells every other rank that this one has failed: their calls throw. For MPI a no-op: the
  /// caller ends the job (MPI_Abort) after it has said why.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace orrery::engine

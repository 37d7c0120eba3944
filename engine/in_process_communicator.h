#pragma once
// Ranks as threads of one process. A message is copied once, from the sender's buffer straight into
// the receiver's, by whichever of the two has its hands free.

#include <memory>
#include <vector>

#include "engine/communicator.h"

namespace orrery::engine {

/// What the ranks of one run share. Outlives its communicators, and every buffer given to them
/// outlives the threads that use them.
class InProcessFabric {
 public:
  explicit InProcessFabric(int ranks);
  ~InProcessFabric();
  InProcessFabric(const InProcessFabric&) = delete;
  InProcessFabric& operator=(const InProcessFabric&) = delete;

  int ranks() const;
  /// The end of one rank; to be used by one thread.
  std::unique_ptr<Communicator> communicator(core::Rank);

  struct Shared;  ///< Endpoints of all ranks; known to the implementation only.

 private:
  std::unique_ptr<Shared> shared_;
};

}  // namespace orrery::engine

#pragma once
// Ranks as MPI processes. Only where CMake found MPI (ORRERY_MPI).

#ifdef ORRERY_MPI

#include <memory>
#include <optional>
#include <string>

#include "engine/communicator.h"

namespace orrery::engine {

/// How many processes the launcher (mpirun, srun) has started, by the variables it sets; nullopt
/// where this process was started alone. Asks without initialising MPI.
std::optional<int> launched_ranks();

/// MPI from construction to destruction. One per process, in main's thread.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  core::Rank rank() const;
  int ranks() const;
  /// This process's end; the session outlives it.
  std::unique_ptr<Communicator> communicator();
  /// The lowest rank whose process says true; absent where none does. Every process asks at once.
  std::optional<core::Rank> lowest(bool mine) const;
  /// Processes of this job on this machine.
  int ranks_here() const;
  /// Ends every process of the job. Say why before.
  [[noreturn]] void abort(int exit_status);
};

}  // namespace orrery::engine

#endif

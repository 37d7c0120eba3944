#pragma once
// What a cluster does that its files do not say: devices that are slow, links that are slow or broken,
// the traffic of others, noise.

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "core/units.h"

namespace orrery::core {

/// Steps first, ..., last; without a last one all from the first on.
struct StepRange {
  int first = 0;
  std::optional<int> last;

  bool has(int step) const { return step >= first && (!last || step <= *last); }
};

/// A rank whose compute instructions take `slowdown` times as long.
struct Straggler {
  Rank rank;
  double slowdown = 1.0;
  StepRange steps;
};

/// A link that has only a share of its bandwidth (or more than all of it). What a step sends over it
/// is slow, whenever it moves.
struct SlowLink {
  LinkId link;
  double share = 1.0;
  StepRange steps;
};

/// A link that carries nothing: what a step sends goes around it (core::LinkFaults).
struct FailedLink {
  LinkId link;
  StepRange steps;
};

/// Another job's messages, all the time: they take their fair share of every link on their way, up
/// to `rate`.
struct BackgroundFlow {
  Rank from, to;
  BytesPerSecond rate;
};

/// Every compute instruction takes e^(deviation·z) times as long, z drawn from the standard normal
/// distribution by (seed, rank, step, instruction).
struct Jitter {
  double deviation = 0.0;
  std::uint64_t seed = 0;
};

struct Perturbations {
  std::vector<Straggler> stragglers;
  std::vector<SlowLink> slow_links;
  std::vector<FailedLink> failed_links;
  std::vector<BackgroundFlow> background;
  std::optional<Jitter> jitter;

  bool empty() const {
    return stragglers.empty() && slow_links.empty() && failed_links.empty() && background.empty() &&
           !jitter;
  }
};

}  // namespace orrery::core

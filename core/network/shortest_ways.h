#pragma once
// The ways of the fewest wires between switches that are wired in any way.

#include <optional>
#include <vector>

#include "core/interconnect.h"
#include "core/network/family/families.h"
#include "core/network/link.h"

namespace orrery::core {

class ShortestWays {
 public:
  struct Wire {
    int from = 0, to = 0;
    LinkId link;
  };

  /// Wires between switches 0, 1, ..., `switches` - 1.
  ShortestWays(int switches, const std::vector<Wire>&);

  /// Wires from each switch to `to`; absent where there is no way.
  std::vector<std::optional<int>> distances(int to) const;

  /// Appends the shortest ways between two switches; `distances` are those to the second. At every
  /// switch what comes is divided evenly over the wires that lead on, or goes over one of them.
  /// False, and nothing appended, where there is no way.
  bool append(const family::SwitchPair&, Spreading,
              const std::vector<std::optional<int>>& distances, Route&) const;

 private:
  std::vector<std::vector<Wire>> from_, to_;  // By switch.
};

}  // namespace orrery::core

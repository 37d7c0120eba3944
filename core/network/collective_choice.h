#pragma once
// Which algorithm carries out a collective: the one rule that the simulator, the cost model and the
// engine follow. A library offers methods for a collective of so many bytes; of several the one
// that would be fastest with nothing beside it is taken, the first of equals.
//
//   NCCL       all-reduce   ring or tree, each in every protocol; sums in the switch of one node
//                           where it has them, with trees between nodes where every node has as
//                           many members, two or more
//              all-to-all   direct
//              others       ring, in every protocol
//   all pairs  all-reduce   of at most kExchangeBytes one exchange, else direct
//              others       direct

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "core/collective_library.h"
#include "core/program.h"
#include "core/units.h"

namespace orrery::core {

enum class CollectiveAlgorithm {
  Ring,
  Tree,
  Hierarchical,  ///< Rings in each node, then between nodes. No library takes it by itself.
  Direct,
  Exchange,
  InSwitch,
  InSwitchTree
};
inline constexpr int kCollectiveAlgorithms = 7;
std::string_view algorithm_name(CollectiveAlgorithm);

/// An algorithm and how its steps move their blocks.
struct CollectiveMethod {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  Protocol protocol = Protocol::Simple;

  CollectiveMethod() = default;
  // Not explicit: an algorithm alone means Simple.
  CollectiveMethod(CollectiveAlgorithm a, Protocol p = Protocol::Simple)
      : algorithm(a), protocol(p) {}
  auto operator<=>(const CollectiveMethod&) const = default;
};

/// How a group's members lie on nodes, as far as methods depend on it.
struct GroupShape {
  bool one_node = true;
  bool two_levels = false;  ///< The same number of members, at least two, on two nodes or more.
};

/// A few methods, in the order of preference.
class MethodList {
 public:
  void add(CollectiveMethod method) { methods_[size_++] = method; }
  const CollectiveMethod* begin() const { return methods_.data(); }
  const CollectiveMethod* end() const { return methods_.data() + size_; }
  std::size_t size() const { return size_; }

 private:
  std::array<CollectiveMethod, 8> methods_;
  std::size_t size_ = 0;
};

/// An all-reduce of at most this many bytes is one exchange between all pairs: then its time is
/// latency, not volume.
inline constexpr Bytes kExchangeBytes = Bytes(8192);

/// Of CollectiveLibrary::AllPairs; the engine's.
CollectiveAlgorithm all_pairs_algorithm(CollectiveKind, Bytes);

/// At least one.
MethodList methods_for(const Collectives&, CollectiveKind, Bytes, GroupShape);

/// Of methods the one with the least time(method), the first of equals.
template <class Time>
CollectiveMethod fastest(const MethodList& methods, Time time) {
  CollectiveMethod best = *methods.begin();
  if (methods.size() == 1) return best;
  auto least = time(best);
  for (const CollectiveMethod* m = methods.begin() + 1; m != methods.end(); ++m) {
    const auto t = time(*m);
    if (!(t < least)) continue;
    best = *m;
    least = t;
  }
  return best;
}

/// Of a protocol that the library has; Simple's is 1.
ProtocolCost protocol_cost(const Collectives&, Protocol);

}  // namespace orrery::core

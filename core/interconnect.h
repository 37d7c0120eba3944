#pragma once
// The network between the nodes of a cluster, as cluster files describe it. What each family looks
// like as a graph of links: core/network/family/.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace orrery::core {

/// α and β of one directed link.
struct LinkCost {
  Seconds latency;           ///< α, per message.
  BytesPerSecond bandwidth;  ///< β, one direction.
};

enum class NetworkKind { None, Star, FatTree, Rail, Torus, Dragonfly, Graph };

/// What becomes of a message that has several equally short ways (equal-cost multi-path).
enum class Spreading {
  Even,  ///< Each way carries an equal part of it, as packet spraying does.
  Hash   ///< One way carries it whole: which one, a hash of its two ends decides.
};

/// Of a fat tree, a third level: leaves form pods, pods are joined above.
struct Pods {
  int leaves = 0;                 ///< Of one pod.
  double oversubscription = 1.0;  ///< What leads up to a pod's spines / what leads on from there.
};

/// Of a fat tree that hashes: the switches that it has in truth. A leaf's capacity upwards is split
/// evenly over its spines, a pod spine's over its cores.
struct Spines {
  int spines = 1;  ///< Of a pod, or of the whole tree where it has no pods.
  int cores = 1;   ///< With pods: for each spine of a pod.
};

/// How a message reaches a card of another rail (Network::Rail).
enum class CrossRail {
  Spine,       ///< Through the switches above the rails.
  WithinNode,  ///< First to the device of its own node that has a card of that rail.
};

/// Switches on a grid whose sides close to rings; the switch of one node, or of several.
struct Torus {
  std::vector<int> sides;  ///< Switches are numbered along the first side first.
  int nodes_per_switch = 1;
  LinkCost link;  ///< Between neighbours, each direction.
};

/// Groups of switches: in a group every pair has a link, and every pair of groups has some.
struct Dragonfly {
  int nodes_per_switch = 0;
  int switches_per_group = 0;
  int groups = 0;
  int links_between_groups = 0;  ///< Between two groups, dealt to their switches in turn.
  LinkCost local;                ///< Between two switches of a group, each direction.
  LinkCost global;               ///< One link between groups, each direction.
};

/// Any switches, with any links between them.
struct SwitchGraph {
  struct Wire {
    int from = 0, to = 0;
    LinkCost cost;
  };
  std::vector<std::string> switches;       ///< Names.
  std::vector<Wire> wires;                 ///< One direction each.
  std::vector<std::vector<int>> attached;  ///< By node: the switch of all its cards, or of each.
};

struct Network {
  NetworkKind kind = NetworkKind::None;
  int nodes_per_leaf = 0;         ///< FatTree, Rail.
  double oversubscription = 1.0;  ///< FatTree, Rail: leaf's down capacity / up capacity, ≥ 1.
  Seconds hop_latency;            ///< Per network link: 2 under one switch, 4 between leaves.
  double efficiency = 1.0;        ///< Share of a line rate that bulk transfers reach.
  Spreading spreading = Spreading::Even;
  std::optional<Pods> pods = {};      ///< FatTree only.
  std::optional<Spines> spines = {};  ///< FatTree with Spreading::Hash only.
  CrossRail cross_rail = CrossRail::Spine;
  Torus torus = {};
  Dragonfly dragonfly = {};
  SwitchGraph graph = {};
};

/// "fat-tree", as cluster files say it.
std::string_view network_name(NetworkKind);

}  // namespace orrery::core

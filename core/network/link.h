#pragma once
// The links of a cluster and the routes over them.

#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/ids.h"

namespace orrery::core {

/// What a link is: a device's port; what devices of a node share; a network card; the trunk of a
/// leaf, of a rail's leaf or of a pod's spines; a wire between two switches.
enum class LinkKind {
  PortOut,
  PortIn,
  SharedUp,
  SharedDown,
  CardOut,
  CardIn,
  LeafUp,
  LeafDown,
  RailUp,
  RailDown,
  PodUp,
  PodDown,
  Wire
};

struct Link {
  LinkKind kind = LinkKind::PortOut;
  /// Node of a port, shared link or card; leaf or pod of a trunk; switch that a wire leads from.
  int place = 0;
  int index =
      0;  ///< Device, card or PCIe switch in the node; rail; which trunk or wire of several.
  LinkCost cost;
  int to = 0;  ///< Of a wire: the switch that it leads to.
};

/// One link of a route, with the share of what is sent that takes it.
struct Hop {
  LinkId link;
  double share = 1.0;

  bool operator==(const Hop&) const = default;
};

/// From one end to the other. Where several ways carry a part each, way by way from switch to
/// switch; then the shares of the links between two of them add up to 1.
using Route = std::vector<Hop>;

}  // namespace orrery::core

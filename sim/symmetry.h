#pragma once
// Which ranks, communications and links are alike, found from the graph that they make.
//
// Colours are refined until they no longer change (1-dimensional Weisfeiler-Leman): every rank, group,
// message and link begins with what is its own (role and place in a ring, how it is perturbed; its
// latencies; its capacity), and takes in again and again the colours around it:
//
//   rank ── the groups in its slots, its peers, what it sends and receives
//   group, message ── its ranks, and the links that it loads, with how much
//   link ── the communications that load it, with how much
//
// The outcome is equitable: every rank of a colour has the same colours in its slots, and every link of
// a colour carries the same from each colour of communications. So, by induction over the events, the
// ranks of a colour do the same at the same time. For if they have up to some time, communications of
// a colour start and go on together, and their rates are equal: max-min fair rates are the only ones,
// and taking for each communication the mean over its colour keeps every inequality of
// sim/max_min.h. Hence one rank of each colour can be simulated for all, one communication of each, and
// one link of each, which all communications of a colour load together.
// Source: Grohe, Kersting, Mladenov, Selman, "Dimension reduction via colour refinement", ESA 2014.
//
// A collective of all ranks that is ordered against every other communication of every role meets
// nothing on its links: it has no part in their colours.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/network/topology.h"
#include "core/program.h"

namespace orrery::sim {

/// A message's sender, and the slot that names its receiver.
using MessageId = std::pair<core::Rank, core::PeerSlot>;

struct Symmetry {
  std::vector<std::size_t> rank_class;                   ///< By rank, numbered from 0.
  std::vector<std::size_t> group_class;                  ///< By group, numbered from 0.
  std::vector<std::vector<core::GroupId>> alike_groups;  ///< By class of groups.
  std::map<MessageId, std::size_t> message_class;
  std::vector<std::vector<MessageId>> alike_messages;  ///< By class of messages.
  std::vector<std::size_t>
      link_class;           ///< By link: the first link of its class, which stands for it.
  std::vector<bool> alone;  ///< By group: nothing else moves while it does.
};

/// What ranks and links have of their own: equal numbers, equal properties.
struct Properties {
  std::vector<std::uint64_t> ranks;  ///< By rank.
  std::vector<std::uint64_t> links;  ///< By link.
};

class Communications;

/// @param plans  What communications put on the links, for each state of the network: of every rank
///               by itself.
Symmetry symmetry_of(const core::Program&, const std::vector<Communications*>& plans,
                     const Properties&, bool links_are_shared_with_others);

}  // namespace orrery::sim

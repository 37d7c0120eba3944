#pragma once
// Indices as types, so that a node cannot be passed where a rank is meant. Absent is std::optional.

#include <compare>
#include <cstddef>
#include <functional>

namespace orrery::core {

template <class Tag>
struct Id {
  int value = 0;

  constexpr Id() = default;
  constexpr explicit Id(int v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<int>(v)) {}
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  auto operator<=>(const Id&) const = default;
};

using Rank = Id<struct RankTag>;            ///< Global process index.
using NodeId = Id<struct NodeTag>;          ///< A host.
using LinkId = Id<struct LinkTag>;          ///< One directed capacity of a Topology.
using RoleId = Id<struct RoleTag>;          ///< A distinct instruction list of a Program.
using BlockId = Id<struct BlockTag>;        ///< A block of instructions within a Role.
using BufferId = Id<struct BufferTag>;      ///< A buffer within a Role.
using GroupId = Id<struct GroupTag>;        ///< A group of ranks within a Program.
using GroupSlot = Id<struct GroupSlotTag>;  ///< Which of a rank's groups (see RankBinding).
using PeerSlot = Id<struct PeerSlotTag>;    ///< Which of a rank's peers (see RankBinding).

}  // namespace orrery::core

template <class Tag>
struct std::hash<orrery::core::Id<Tag>> {
  std::size_t operator()(orrery::core::Id<Tag> id) const noexcept { return id.index(); }
};

#pragma once
// Programs of a few ranks, written by hand for the simulator's tests.

#include <string>
#include <utility>
#include <vector>

#include "core/cluster.h"
#include "core/durations.h"
#include "core/program.h"

namespace orrery::sim {

/// One role per rank, each one block called once per microbatch, with its durations.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(int ranks);

  /// Adds an instruction to the rank's only block; gives its index.
  int compute(int rank, double seconds, std::vector<int> waits = {},
              core::Stream = core::Stream::Compute);
  int send(int rank, int to, core::Bytes, std::vector<int> waits = {},
           core::Channel = core::Channel::Activation);
  int receive(int rank, int from, core::Bytes, std::vector<int> waits = {},
              core::Channel = core::Channel::Activation);
  int collective(int rank, core::CollectiveKind, core::GroupId, core::Bytes,
                 std::vector<int> waits = {}, core::Stream = core::Stream::Data);
  int add(int rank, core::Instruction, double seconds = 0);
  core::Instruction& instruction(int rank, int index);

  core::GroupId group(std::vector<int> members);
  core::PeerSlot peer(int rank, int other);
  core::GroupSlot slot(int rank, core::GroupId);
  core::Role& role(int rank) { return program.roles[static_cast<std::size_t>(rank)]; }

  core::Program program;
  core::Durations durations;
};

/// `nodes` nodes of one device, each with a card of `bandwidth`, on a star; α of a message is
/// 2 · `hop`.
core::Cluster star(int nodes, core::Seconds hop, core::BytesPerSecond bandwidth);

/// One node of `devices` on a switch.
core::Cluster one_node(int devices, core::LinkCost link);

}  // namespace orrery::sim

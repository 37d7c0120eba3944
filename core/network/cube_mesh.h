#pragma once
// The hybrid cube mesh of DGX-1: eight V100 with six NVLinks each, two quads in which every pair has
// a link or two, joined by links between corresponding devices. A ring closes only where links do.

namespace orrery::core {

/// Share of a device's six links that the rings of `members` neighbouring devices use: rings / 6.
/// One to one link between two devices gives one ring, a triangle two (both ways round), a quad
/// four, all eight devices six. Five devices have no closed ring; NCCL still reaches 1.65 rings'
/// bandwidth.
/// Source: bus bandwidths of 2 to 8 V100 at 1 GiB, vtrain_v100_*g in data/validation/nccl_busbw.csv:
/// 22.6, 45.1, 85.4, 37.2, 45.7, 87.0 and 134.5 GB/s, at 22.5 GB/s per ring.
double cube_mesh_share(int members);

/// Of a message between two devices of a node: one link, as most pairs have. (Pairs with two are
/// faster, pairs without one go through the host.)
inline double cube_mesh_message_share() { return cube_mesh_share(2); }

}  // namespace orrery::core

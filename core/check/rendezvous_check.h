#pragma once
// Plays a Program without time: everything that may start does, until the step ends or nobody can
// move. Finds collectives with a missing member or unequal sizes, messages without their other
// half, and ranks that wait for each other in a circle.

#include <string>
#include <vector>

#include "core/program.h"

namespace orrery::core {

/// Faults as sentences; empty when a step ends on every rank.
///
/// @param ranks  The ranks to play, ascending; the other ranks of their groups and pairs are taken
/// to
///               do their part. All ranks, or one data way of a large program.
std::vector<std::string> check_rendezvous(const Program&, const std::vector<Rank>& ranks);

}  // namespace orrery::core

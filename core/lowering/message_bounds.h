#pragma once
// How far communication of a pipeline stage may run ahead of its computation, and behind it.
//
// What a call reads from a peer or from the data may be fetched while the calls before it compute,
// and what it sends may stay unreceived while the calls after it do. Both are bounded, lest memory
// grow without limit: of the messages of one kind two may be there at a time, one in use and one on
// its way.
//
//   (1) the k-th receive (or load) on a stream waits for the computation of the call that has the
//       k−2-nd;
//   (2) the call that has the k-th send on a stream computes only when the k−2-nd has been received;
//   (3) a call that receives a gradient computes only when the activation that it belongs to has
//       been received. This holds anyway, and says so where memory is counted.
//
// They count messages of one kind, not calls, so that calls of other kinds between them (backward
// passes between two forwards, weight gradients) neither tighten nor loosen the bound. The waits are
// part of the Program: its interpreters and core::memory_profile() read them there;
// costmodel/pipeline_cost.h and costmodel/pipeline_occupancy.h follow the same three rules.

#include "core/program.h"

namespace orrery::core {

/// Messages of one kind that may be there at a time.
inline constexpr int kMessagesAhead = 2;

/// Whether an instruction fetches from a peer or from the data, so that (1) bounds it.
bool fetches_ahead(const Instruction&);

/// Adds the waits above to the calls of a role. Call after add_dependencies.
void bound_messages(Role&);

/// (1) where fetching and computing are blocks of their own: the first instruction of the k-th call of
/// `fetches` waits for the computation of the k−2-nd call of `computes`. Call after add_dependencies.
void bound_fetches(Role&, BlockId fetches, BlockId computes);

}  // namespace orrery::core

#pragma once
// Lifetimes and dependencies of a role, derived from what its instructions read and write, so that
// no lowering writes them by hand.

#include "core/program.h"

namespace orrery::core {

/// Lists each Call and Microbatch buffer in `frees` of the instruction that uses it last. Where that
/// is a collective, of the compute instruction that takes up its result, so that memory follows the
/// compute stream however late the collective runs.
void add_frees(Role&);

/// Adds the waits that the streams' own order does not imply: an instruction waits for the latest
/// earlier instruction of every other stream whose accesses conflict with its own (one of the two
/// writes or frees, the ranges overlap). Call after add_frees, before waits that no access implies.
void add_dependencies(Role&);

}  // namespace orrery::core

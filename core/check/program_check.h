#pragma once
// What can be proven of a Program before anything runs.

#include <string>
#include <vector>

#include "core/program.h"

namespace orrery::core {

/// Every fault found, each one sentence naming rank, call and instruction: a send without its
/// receive (or of other size), a member missing from a collective, a buffer read before it is
/// written or after it is freed, a view outside its buffer, a read of data that another stream may
/// not have written yet, a circle of waits. Empty: the program is sound.
std::vector<std::string> check_program(const Program&);

}  // namespace orrery::core

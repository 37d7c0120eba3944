#pragma once
// Sizes of the messages between workers and servers (core/program.h states their layout), for
// whoever predicts them: simulator, cost model, reports.

#include "core/program.h"
#include "core/units.h"

namespace orrery::core {

/// Bytes between one worker and one server.
struct PullMessages {
  Bytes request;  ///< To the server: 4 + 4·keys.
  Bytes answer;   ///< Back: 4·keys·width.
};
PullMessages pull_messages(double keys, int width);

/// To the server: 4 + 4·keys + 4·keys·width.
Bytes push_message(double keys, int width);

/// Rows that one server keeps: ⌈rows / servers⌉ at most.
std::int64_t shard_rows(const Embedding&);

}  // namespace orrery::core

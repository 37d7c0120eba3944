#pragma once
// Where a run's samples come from: what the program's loading instructions read.

#include "engine/criteo.h"
#include "engine/token_source.h"

namespace orrery::engine {

/// Null where the program reads none. Shared by all rank threads: reading changes nothing.
struct DataSources {
  const TokenSource* tokens = nullptr;
  const CriteoFile* samples = nullptr;
};

}  // namespace orrery::engine

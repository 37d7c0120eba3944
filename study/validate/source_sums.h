#pragma once
// Errors summed up by source.

#include <vector>

#include "study/validate/validate.h"

namespace orrery::study {

/// One entry per source in the order of its first row, each followed by its parts: one node against
/// several, and each device, where a source has rows of both.
std::vector<SourceResult> source_sums(const std::vector<RowResult>&);

}  // namespace orrery::study

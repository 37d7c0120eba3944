#pragma once
// What `orrery validate` prints.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "study/validate/validate.h"

namespace orrery::app {

/// One line per source and part, the worst row of each with its terms, and what was skipped,
/// assumed and left open.
std::string sources_text(const study::Validation&);
/// One line per row with its terms.
std::string rows_text(const study::Validation&);
/// { "rows": [...], "sources": [...] }; errors in percent, null where there is none.
nlohmann::json validation_json(const study::Validation&);

}  // namespace orrery::app

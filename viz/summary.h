#pragma once
// The side panel as data: where the shown step went, what is largest, what is selected.

#include <optional>
#include <string>
#include <vector>

#include "viz/palette.h"
#include "viz/view_model.h"

namespace orrery::viz {

struct SummaryLine {
  enum class Kind { Heading, Part, SubPart, Text };
  Kind kind = Kind::Text;
  std::string label;
  std::optional<Colour> swatch;
  std::vector<std::string> values;  ///< One per column.
  std::vector<double> shares;       ///< Of the step, one per trace: bars. Empty: no bar.
};

/// Names of the value columns: "time", "share" of one trace; "predicted", "measured", "error" of
/// two.
std::vector<std::string> summary_columns(const ViewModel&);

std::vector<SummaryLine> summarise(const ViewModel&);

/// What is known of a span, a line each: for the tooltip and the panel.
std::vector<std::string> describe_span(const TraceView&, std::int32_t span);
std::vector<std::string> describe_gap(const TraceView&, std::size_t gap);

}  // namespace orrery::viz

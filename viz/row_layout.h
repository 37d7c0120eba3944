#pragma once
// Which rows are drawn where: every stream of every rank while there is room, then fewer.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "viz/view_model.h"

namespace orrery::viz {

enum class Detail {
  Streams,  ///< One row per stream.
  TwoRows,  ///< Compute, and communication of all streams below it.
  OneRow    ///< Compute, underlined by communication.
};

struct Row {
  int trace = 0;
  core::Rank rank;
  std::optional<core::Stream> stream;  ///< Of a row for one stream.
  bool computes = false;               ///< Shows compute: gaps and passes belong here.
  const IntervalRow* fill = nullptr;
  const IntervalRow* waiting = nullptr;    ///< Drawn faintly, if any.
  const IntervalRow* underline = nullptr;  ///< Communication at the bottom of the row, if any.
  const RankRows* rank_rows = nullptr;
  float top = 0.0F;
  float height = 0.0F;
  std::string label;  ///< "compute", "TP".

  float bottom() const { return top + height; }
  float underline_top() const {
    return underline ? bottom() - std::max(1.0F, std::round(0.3F * height)) : bottom();
  }
};

/// The rows of one rank, of all traces.
struct RankBlock {
  core::Rank rank;
  float top = 0.0F;
  float bottom = 0.0F;
  std::string label;  ///< "rank 3", "rank 3 x8".
  struct Share {
    float middle;      ///< y.
    std::string text;  ///< "31 %" of its step is bubble.
  };
  std::vector<Share> bubbles;  ///< One per trace that has the rank.
};

struct RowLayout {
  Detail detail = Detail::OneRow;
  std::vector<Row> rows;
  std::vector<RankBlock> blocks;
  int ranks_above = 0;  ///< Scrolled out.
  int ranks_below = 0;  ///< No room.

  /// The row that shows a span, if any does.
  const Row* row_of(const ViewModel&, SpanRef) const;
  /// The row at a height on screen.
  const Row* row_at(float y) const;
};

/// Rows between `top` and `bottom`. `scale` multiplies all sizes (1 at 1280 x 720).
RowLayout arrange_rows(const ViewModel&, float top, float bottom, float scale);

/// "TP", "PP > send F": a stream's name in the narrow column left of its row.
std::string stream_label(core::Stream);

}  // namespace orrery::viz

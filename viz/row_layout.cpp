#include "viz/row_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace orrery::viz {

using core::Rank;
using core::Stream;

std::string stream_label(Stream stream) {
  switch (stream) {
    case Stream::Compute:
      return "compute";
    case Stream::Tensor:
      return "tensor";
    case Stream::Context:
      return "context";
    case Stream::Expert:
      return "expert";
    case Stream::SendContext:
      return "send ctx";
    case Stream::ReceiveContext:
      return "recv ctx";
    case Stream::SendActivation:
      return "send act";
    case Stream::ReceiveActivation:
      return "recv act";
    case Stream::SendGradient:
      return "send grad";
    case Stream::ReceiveGradient:
      return "recv grad";
    case Stream::Data:
      return "data";
    case Stream::Gather:
      return "gather";
    case Stream::ParameterServer:
      return "server";
    case Stream::Serve:
      return "serve";
    case Stream::Host:
      return "host";
  }
  ORRERY_CHECK(false, "no such stream");
}

namespace {

/// Heights in pixels at scale 1. Text of 13 px fits a compute row, of 10 px a communication row.
struct Heights {
  float compute, communication, between_traces, between_ranks;
};
constexpr Heights kStreamsHeights{20, 11, 4, 9};
constexpr Heights kTwoRowsHeights{15, 6, 2, 5};
constexpr float kTallest = 3.0F;      // Rows stretch to fill the window up to this factor.
constexpr float kOneRowLeast = 3.5F;  // Below this a row shows nothing that can be read.
constexpr float kOneRowMost = 34;

bool computes(Stream stream) { return stream == Stream::Compute || stream == Stream::Serve; }

const RankRows* find_rank(const TraceView& view, Rank rank) {
  const auto found =
      std::partition_point(view.ranks.begin(), view.ranks.end(),
                           [rank](const RankRows& rows) { return rows.rank < rank; });
  return found != view.ranks.end() && found->rank == rank ? &*found : nullptr;
}

/// The rows of one rank of one trace, without position.
std::vector<Row> rows_of(const RankRows& rank, int trace, Detail detail, const Heights& heights) {
  std::vector<Row> rows;
  const auto add = [&](const IntervalRow& fill, float height, std::string label) -> Row& {
    Row row;
    row.trace = trace;
    row.rank = rank.rank;
    row.fill = &fill;
    row.rank_rows = &rank;
    row.height = height;
    row.label = std::move(label);
    rows.push_back(std::move(row));
    return rows.back();
  };
  if (detail == Detail::Streams) {
    for (const RankRows::StreamRow& stream : rank.streams) {
      const bool compute = computes(stream.stream);
      Row& row = add(stream.active, compute ? heights.compute : heights.communication,
                     stream_label(stream.stream));
      row.stream = stream.stream;
      row.computes = compute;
      row.waiting = &stream.waiting;
    }
    return rows;
  }
  Row& compute = add(rank.compute, heights.compute, "compute");
  compute.computes = true;
  if (detail == Detail::OneRow) {
    compute.underline = &rank.communication;
  } else if (rank.communication.size() > 0) {
    add(rank.communication, heights.communication, "comm");
  }
  return rows;
}

std::string share_text(const TraceView& view, Rank rank) {
  for (const core::StepBreakdown& b : view.breakdowns) {
    if (b.rank == rank && b.length > core::Seconds(0)) {
      return fmt::format("{:.0f}%", 100.0 * (b.total_bubble() / b.length));
    }
  }
  return "";
}

/// Stacks the rows of all ranks from `top` and returns where they end.
float stack(const ViewModel& model, const std::vector<Rank>& ranks, const Heights& heights,
            float top, RowLayout& layout) {
  float y = top;
  for (Rank rank : ranks) {
    y = std::floor(y);
    RankBlock block{rank, y, y, fmt::format("rank {}", rank.value), {}};
    for (std::size_t t = 0; t < model.traces().size(); ++t) {
      const TraceView& view = model.traces()[t];
      const RankRows* found = find_rank(view, rank);
      if (found == nullptr) continue;
      if (t > 0 && y > block.top) y += heights.between_traces;
      if (found->represents > 1) {
        block.label = fmt::format("rank {} ×{}", rank.value, found->represents);
      }
      const float first = y;
      for (Row& row : rows_of(*found, static_cast<int>(t), layout.detail, heights)) {
        row.top = std::floor(y);
        row.height =
            std::max(1.0F, std::floor(row.height));  // Whole pixels: equal rows look equal.
        y = row.bottom();
        layout.rows.push_back(std::move(row));
      }
      block.bubbles.push_back({0.5F * (first + y), share_text(view, rank)});
    }
    block.bottom = y;
    layout.blocks.push_back(std::move(block));
    y += heights.between_ranks;
  }
  return y - heights.between_ranks;
}

Heights scaled(Heights h, float factor) {
  return {h.compute * factor, h.communication * factor, h.between_traces * factor,
          h.between_ranks * factor};
}

RowLayout one_row_each(const ViewModel& model, std::vector<Rank> ranks, float top, float bottom,
                       float scale) {
  RowLayout layout;
  layout.ranks_above = std::min(model.first_rank(), static_cast<int>(ranks.size()) - 1);
  const auto traces = static_cast<float>(model.traces().size());
  const auto count = static_cast<float>(ranks.size());
  const float pitch = (bottom - top) / count;
  const float least = traces * (kOneRowLeast + 1.0F) * scale;
  const float most = traces * kOneRowMost * scale;
  const float block = std::clamp(pitch, least, most);
  if (block * count <= bottom - top + 0.5F) {
    layout.ranks_above = 0;
  } else {
    const int room = std::max(1, static_cast<int>((bottom - top) / block));
    ranks.erase(ranks.begin(), ranks.begin() + layout.ranks_above);
    layout.ranks_below = std::max(0, static_cast<int>(ranks.size()) - room);
    ranks.resize(ranks.size() - static_cast<std::size_t>(layout.ranks_below));
  }
  const float between_ranks = std::max(1.0F, 0.16F * block);
  const float between_traces = traces > 1 ? std::max(1.0F, 0.04F * block) : 0.0F;
  const float height = (block - between_ranks - (traces - 1) * between_traces) / traces;
  stack(model, ranks, {height, 0, between_traces, between_ranks}, top, layout);
  return layout;
}

}  // namespace

RowLayout arrange_rows(const ViewModel& model, float top, float bottom, float scale) {
  const std::vector<Rank> ranks = model.ranks();
  if (ranks.empty()) return {};
  for (const auto& [detail, heights] :
       {std::pair(Detail::Streams, kStreamsHeights), std::pair(Detail::TwoRows, kTwoRowsHeights)}) {
    RowLayout natural;
    natural.detail = detail;
    const float end = stack(model, ranks, scaled(heights, scale), top, natural);
    if (end > bottom) continue;
    RowLayout layout;
    layout.detail = detail;
    const float stretch = std::min(kTallest, (bottom - top) / (end - top));
    stack(model, ranks, scaled(heights, scale * stretch), top, layout);
    return layout;
  }
  return one_row_each(model, ranks, top, bottom, scale);
}

const Row* RowLayout::row_of(const ViewModel& model, SpanRef ref) const {
  const TraceView& view = model.traces()[static_cast<std::size_t>(ref.trace)];
  const core::Span& span = view.trace.spans[static_cast<std::size_t>(ref.span)];
  const core::Lane& lane = view.trace.lanes[static_cast<std::size_t>(span.lane)];
  for (const Row& row : rows) {
    if (row.trace != ref.trace || row.rank != lane.rank) continue;
    const bool shows = row.stream ? *row.stream == lane.stream
                       : detail == Detail::OneRow
                           ? true
                           : row.computes != core::is_communication(span.kind);
    if (shows) return &row;
  }
  return nullptr;
}

const Row* RowLayout::row_at(float y) const {
  for (const Row& row : rows) {
    if (y >= row.top && y < row.bottom()) return &row;
  }
  return nullptr;
}

}  // namespace orrery::viz

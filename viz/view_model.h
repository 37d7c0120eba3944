#pragma once
// What the viewer shows, without how: the traces with what is known of their shown step, the
// visible range of time, what is selected. Everything the user can do is a function here.

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trace.h"
#include "core/trace/critical_path.h"
#include "core/trace/gap.h"
#include "core/trace/step_breakdown.h"
#include "core/trace/trace_comparison.h"
#include "viz/interval_row.h"

namespace orrery::viz {

/// Neighbouring compute spans of one kind and microbatch, with the waits between them: one "F3".
struct PassRun {
  core::Interval when;
  core::SpanKind kind = core::SpanKind::Forward;
  std::optional<std::int32_t> microbatch;
};

/// The rows a rank can be shown as.
struct RankRows {
  struct StreamRow {
    core::Stream stream;
    IntervalRow active;
    IntervalRow waiting;
  };
  core::Rank rank;
  int represents = 1;  ///< Ranks that it stands for, itself included.
  std::vector<StreamRow> streams;
  IntervalRow compute;        ///< Union over streams.
  IntervalRow communication;  ///< Union over streams.
  std::vector<PassRun> passes;
};

/// A trace prepared for viewing. Its time on screen is the trace's time minus `origin`.
struct TraceView {
  core::Trace trace;
  std::vector<RankRows> ranks;
  int steps = 0;
  int step = 0;               ///< The step that is analysed and aligned.
  core::Seconds origin;       ///< Start of that step.
  core::Interval extent;      ///< On screen: of the whole trace.
  core::Interval shown_step;  ///< On screen: [0, length of the step].
  std::vector<core::StepBreakdown> breakdowns;
  std::optional<core::StepBreakdown> mean;
  std::vector<core::Gap> gaps;
  core::CriticalPath critical;
  std::vector<float> profile;  ///< Over `extent`: mean share of ranks that compute.

  core::Interval on_screen(core::Interval in_trace) const {
    return {in_trace.begin - origin, in_trace.end - origin};
  }
};

/// A span of one of the traces.
struct SpanRef {
  int trace = 0;
  std::int32_t span = 0;
  auto operator<=>(const SpanRef&) const = default;
};

class ViewModel {
 public:
  /// One trace, or prediction and measurement: drawn one above the other, aligned at the start of
  /// the shown step (the last recorded one, whose caches are warm).
  explicit ViewModel(std::vector<core::Trace> traces);

  const std::vector<TraceView>& traces() const { return traces_; }
  bool compares() const { return traces_.size() > 1; }
  /// By kind of operation, largest error first; empty unless it compares.
  const std::vector<core::OperationComparison>& comparison() const { return comparison_; }
  /// Ranks that any trace recorded, ascending.
  std::vector<core::Rank> ranks() const;

  /// The visible time. Always within bounds(), at least kShortest long.
  core::Interval range() const { return range_; }
  core::Interval bounds() const { return bounds_; }
  static constexpr core::Seconds kShortest{1e-8};

  void show(core::Interval range);
  void show_step();                               ///< The whole shown step.
  void show_all();                                ///< Everything.
  void zoom(double factor, core::Seconds about);  ///< factor < 1 zooms in.
  void pan(core::Seconds by);
  void select_step(int trace, int step);  ///< The recorded one there, or the next on the way there.

  const std::optional<SpanRef>& selection() const { return selection_; }
  void select(std::optional<SpanRef>);
  void select_neighbour(int direction);  ///< Along the lane, keeping it in view.
  void fit_selection();
  void next_gap(int direction);  ///< Shows the next smaller (larger) gap.
  std::optional<std::size_t> shown_gap() const { return shown_gap_; }

  bool shows_critical_path() const { return critical_; }
  void toggle_critical_path() { critical_ = !critical_; }

  /// First row shown of those that do not fit.
  int first_rank() const { return first_rank_; }
  void scroll_ranks(int by);

 private:
  void analyse(TraceView&);
  void reset_bounds();

  std::vector<TraceView> traces_;
  std::vector<core::OperationComparison> comparison_;
  core::Interval range_{}, bounds_{};
  std::optional<SpanRef> selection_;
  std::optional<std::size_t> shown_gap_;  // Position among the gaps by falling length.
  bool critical_ = false;
  int first_rank_ = 0;
};

}  // namespace orrery::viz

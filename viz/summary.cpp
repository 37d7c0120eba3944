#include "viz/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/quantity_text.h"
#include "core/trace/rank_timeline.h"

namespace orrery::viz {

using core::Seconds;
using core::SpanKind;
using core::StepBreakdown;
using Kind = SummaryLine::Kind;

namespace {

constexpr std::size_t kListed = 6;  // Largest errors or gaps that are listed.

std::string error_text(Seconds predicted, Seconds measured) {
  if (measured == Seconds(0)) return predicted == Seconds(0) ? "" : "new";
  return fmt::format("{:+.1f}%", 100.0 * (predicted / measured - 1.0));
}

class Summary {
 public:
  explicit Summary(const ViewModel& model) : model_(model) {
    for (const TraceView& view : model.traces()) {
      means_.push_back(view.mean.value_or(StepBreakdown{}));
    }
  }

  std::vector<SummaryLine> build() {
    heading(step_title());
    part(
        "step", {}, [](const StepBreakdown& b) { return b.length; }, false);
    for (int k = 0; k < core::kSpanKinds; ++k) {
      const auto kind = static_cast<SpanKind>(k);
      const std::string name(core::span_kind_name(kind));
      part(
          core::is_communication(kind) ? "exposed " + communication_name(kind) : name,
          colour_of(kind), [kind](const StepBreakdown& b) { return b.of(kind); }, true);
    }
    part(
        "bubble", kBubbleHatch, [](const StepBreakdown& b) { return b.total_bubble(); }, true);
    for (int c = 0; c < core::kGapCauses; ++c) {
      const auto cause = static_cast<core::GapCause>(c);
      part(
          fmt::format("{}  {}", core::gap_cause_letter(cause), core::gap_cause_name(cause)), {},
          [cause](const StepBreakdown& b) { return b.of(cause); }, true, Kind::SubPart);
    }
    part(
        "other", kOther, [](const StepBreakdown& b) { return b.other; }, true);
    ratios();
    if (model_.compares()) {
      errors();
    } else {
      largest_gaps();
    }
    selected();
    return std::move(lines_);
  }

 private:
  static std::string communication_name(SpanKind kind) {
    if (kind == SpanKind::ParameterServer) return "push, pull";
    if (kind == SpanKind::ParameterGather) return "gather";
    std::string name(core::span_kind_name(kind));
    const std::size_t word = name.find(" communication");
    return word == std::string::npos ? name : name.substr(0, word);
  }
  void heading(std::string text) { lines_.push_back({Kind::Heading, std::move(text), {}, {}, {}}); }

  std::string step_title() const {
    std::string title = "step";
    for (std::size_t t = 0; t < model_.traces().size(); ++t) {
      const TraceView& view = model_.traces()[t];
      title += fmt::format("{} {} of {}", t > 0 ? " |" : "", view.step + 1, view.steps);
    }
    return title + ", mean of ranks";
  }

  template <class Of>
  void part(std::string label, std::optional<Colour> swatch, Of of, bool hide_zero,
            Kind kind = Kind::Part) {
    SummaryLine line{kind, std::move(label), swatch, {}, {}};
    bool zero = true;
    for (const StepBreakdown& b : means_) {
      const Seconds t = of(b);
      // Less than a millionth of the step is rounding.
      zero = zero && !(t > 1e-6 * b.length);
      line.values.push_back(core::text(t));
      line.shares.push_back(b.length > Seconds(0) ? t / b.length : 0.0);
    }
    if (zero && hide_zero) return;
    if (means_.size() == 1) {
      line.values.push_back(core::percent(line.shares[0]));
    } else {
      line.values.push_back(error_text(of(means_[0]), of(means_[1])));
    }
    lines_.push_back(std::move(line));
  }

  void ratios() {
    SummaryLine overlap{Kind::Text, "comm hidden by compute", {}, {}, {}};
    SummaryLine path{Kind::Text, "comm on critical path", {}, {}, {}};
    for (std::size_t t = 0; t < means_.size(); ++t) {
      const bool communicates = means_[t].communication > Seconds(0);
      overlap.values.push_back(communicates ? core::percent(means_[t].overlap()) : "none");
      Seconds communication;
      for (int k = 0; k < core::kSpanKinds; ++k) {
        if (!core::is_communication(static_cast<SpanKind>(k))) continue;
        communication += model_.traces()[t].critical.by_kind[static_cast<std::size_t>(k)];
      }
      path.values.push_back(
          means_[t].length > Seconds(0) ? core::percent(communication / means_[t].length) : "");
    }
    lines_.push_back(std::move(overlap));
    lines_.push_back(std::move(path));
  }

  void errors() {
    heading("largest errors, per rank and step");
    const auto& rows = model_.comparison();
    for (std::size_t i = 0; i < std::min(kListed, rows.size()); ++i) {
      lines_.push_back({Kind::Text,
                        fmt::format("{} {}", short_name(rows[i].kind), rows[i].operation),
                        colour_of(rows[i].kind),
                        {core::text(rows[i].predicted), core::text(rows[i].measured),
                         error_text(rows[i].predicted, rows[i].measured)},
                        {}});
    }
  }

  void largest_gaps() {
    const TraceView& view = model_.traces().back();
    std::vector<const core::Gap*> gaps;
    for (const core::Gap& gap : view.gaps) gaps.push_back(&gap);
    std::stable_sort(gaps.begin(), gaps.end(), [](const core::Gap* a, const core::Gap* b) {
      return a->when.length() > b->when.length();
    });
    if (gaps.empty()) return;
    heading("largest gaps, and whom they waited for");
    for (std::size_t i = 0; i < std::min(kListed, gaps.size()); ++i) {
      const core::Gap& gap = *gaps[i];
      std::string blamed;
      if (gap.blamed) {
        const core::Span& span = view.trace.spans[static_cast<std::size_t>(*gap.blamed)];
        blamed = fmt::format(
            "rank {}, {}{}", view.trace.lanes[static_cast<std::size_t>(span.lane)].rank.value,
            short_name(span.kind), span.microbatch ? std::to_string(*span.microbatch) : "");
      }
      lines_.push_back(
          {Kind::Text,
           fmt::format("{}  rank {}", core::gap_cause_letter(gap.cause), gap.rank.value),
           {},
           {core::text(gap.when.length()), blamed},
           {}});
    }
  }

  void selected() {
    const auto& selection = model_.selection();
    if (!selection) return;
    heading("selected");
    const TraceView& view = model_.traces()[static_cast<std::size_t>(selection->trace)];
    for (std::string& text : describe_span(view, selection->span)) {
      lines_.push_back({Kind::Text, std::move(text), {}, {}, {}});
    }
  }

  const ViewModel& model_;
  std::vector<StepBreakdown> means_;
  std::vector<SummaryLine> lines_;
};

}  // namespace

std::vector<std::string> summary_columns(const ViewModel& model) {
  if (!model.compares()) return {"time", "share"};
  std::vector<std::string> columns;
  for (const TraceView& view : model.traces()) {
    columns.push_back(view.trace.simulated ? "predicted" : "measured");
  }
  columns.push_back("error");
  return columns;
}

std::vector<SummaryLine> summarise(const ViewModel& model) { return Summary(model).build(); }

std::vector<std::string> describe_span(const TraceView& view, std::int32_t number) {
  const core::Span& span = view.trace.spans[static_cast<std::size_t>(number)];
  const core::Lane& lane = view.trace.lanes[static_cast<std::size_t>(span.lane)];
  std::vector<std::string> lines;
  lines.push_back(view.trace.names[static_cast<std::size_t>(span.name)]);
  lines.push_back(fmt::format("{}, rank {} {}", core::span_kind_name(span.kind), lane.rank.value,
                              core::stream_name(lane.stream)));
  if (!lane.also.empty()) lines.push_back(fmt::format("stands for {} ranks", 1 + lane.also.size()));
  std::string where = fmt::format("step {}", span.instruction.step);
  if (span.microbatch) where += fmt::format(", microbatch {}", *span.microbatch);
  lines.push_back(where);
  lines.push_back(fmt::format("at {}, takes {}", core::text(span.start - view.origin),
                              core::text(span.end - span.start)));
  const Seconds moving = span.end - span.transfer;
  if (span.transfer > span.start) {
    lines.push_back(fmt::format("waits {}, then {}", core::text(span.transfer - span.start),
                                core::text(moving)));
  }
  if (span.bytes > core::Bytes(0)) {
    std::string size = core::message_text(span.bytes);
    if (moving > Seconds(0)) size += fmt::format(", {}", core::text(span.bytes / moving));
    lines.push_back(size);
  }
  return lines;
}

std::vector<std::string> describe_gap(const TraceView& view, std::size_t number) {
  const core::Gap& gap = view.gaps[number];
  std::vector<std::string> lines;
  lines.push_back(
      fmt::format("gap of {}: {}", core::text(gap.when.length()), core::gap_cause_name(gap.cause)));
  lines.push_back(
      fmt::format("rank {}, at {}", gap.rank.value, core::text(gap.when.begin - view.origin)));
  if (gap.blamed) {
    const core::Span& span = view.trace.spans[static_cast<std::size_t>(*gap.blamed)];
    lines.push_back(fmt::format(
        "waited for {} of rank {}{}", view.trace.names[static_cast<std::size_t>(span.name)],
        view.trace.lanes[static_cast<std::size_t>(span.lane)].rank.value,
        span.microbatch ? fmt::format(", microbatch {}", *span.microbatch) : ""));
  }
  return lines;
}

}  // namespace orrery::viz

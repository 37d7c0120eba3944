#include "core/trace/gap.h"

#include <algorithm>

#include "core/error.h"
#include "core/trace/trace_links.h"

namespace orrery::core {

std::string_view gap_cause_name(GapCause cause) {
  switch (cause) {
    case GapCause::WarmUp:
      return "warm-up";
    case GapCause::Drain:
      return "drain";
    case GapCause::Imbalance:
      return "imbalance";
    case GapCause::Pipeline:
      return "pipeline message";
    case GapCause::Tensor:
      return "tensor collective";
    case GapCause::Context:
      return "context exchange";
    case GapCause::Expert:
      return "expert exchange";
    case GapCause::Gather:
      return "parameter gather";
    case GapCause::Data:
      return "data collective";
    case GapCause::Server:
      return "parameter server";
    case GapCause::Host:
      return "host";
  }
  ORRERY_CHECK(false, "no such cause");
}

char gap_cause_letter(GapCause cause) { return "wdiptxegcsh"[static_cast<int>(cause)]; }

namespace {

/// Finds the causes of one rank's gaps in one step.
class CauseFinder {
 public:
  CauseFinder(const Trace& trace, const TraceLinks& links, Rank rank, int step)
      : trace_(trace), links_(links) {
    for (SpanNumber i : spans_of(trace, rank, step)) {
      const Span& span = at(i);
      if (is_compute(span.kind)) compute_.push_back(i);
      if (span.kind == SpanKind::PipelineCommunication) in_pipeline_ = true;
      if (span.kind == SpanKind::Forward) {
        last_forward_ = std::max(last_forward_.value_or(span.end), span.end);
      }
      // Recomputing needs no gradient: it may run before the wait for the first one.
      if (span.kind == SpanKind::Backward || span.kind == SpanKind::WeightGrad) {
        first_backward_ = std::min(first_backward_.value_or(span.start), span.start);
        last_backward_ = std::max(last_backward_.value_or(span.end), span.end);
      }
    }
    std::sort(compute_.begin(), compute_.end(),
              [&](SpanNumber a, SpanNumber b) { return at(a).transfer < at(b).transfer; });
  }

  void explain(Gap& gap) const {
    if (!next_compute(gap.when)) {
      gap.cause = GapCause::Drain;
      return;
    }
    const auto waiting = waiting_during(gap.when);
    if (!waiting) {
      gap.cause = ends_the_rank(gap.when) ? GapCause::Drain : GapCause::Host;
      return;
    }
    const auto party = links_.last_party(*waiting);
    const auto behind = party ? links_.last_predecessor(*party) : std::nullopt;
    gap.blamed = behind ? behind : party;
    gap.cause = cause_of(gap.when, at(*waiting).kind, party, behind);
  }

 private:
  const Span& at(SpanNumber i) const { return trace_.spans[static_cast<std::size_t>(i)]; }

  std::optional<SpanNumber> next_compute(Interval gap) const {
    const auto next = std::partition_point(compute_.begin(), compute_.end(),
                                           [&](SpanNumber i) { return at(i).transfer < gap.end; });
    if (next == compute_.end()) return std::nullopt;
    return *next;
  }

  /// The communication that the rank's next compute needs and that was waiting during the gap.
  std::optional<SpanNumber> waiting_during(Interval gap) const {
    std::optional<SpanNumber> current = next_compute(gap);
    // As many steps as there are spans: dependencies in a circle, which a file may hold, end too.
    for (std::size_t left = trace_.spans.size(); current && left > 0; --left) {
      const Span& span = at(*current);
      if (span.end <= gap.begin) return std::nullopt;
      if (span.start < gap.end) {
        return span.transfer >= gap.end ? current : std::nullopt;
      }
      current = links_.last_predecessor(*current);
    }
    return std::nullopt;
  }

  bool ends_the_rank(Interval gap) const {
    return in_pipeline_ && last_backward_ && gap.begin >= *last_backward_;
  }

  GapCause cause_of(Interval gap, SpanKind waited, std::optional<SpanNumber> party,
                    std::optional<SpanNumber> behind) const {
    if (waited == SpanKind::TensorCommunication) return GapCause::Tensor;
    if (waited == SpanKind::ContextCommunication) return GapCause::Context;
    if (waited == SpanKind::ExpertCommunication) return GapCause::Expert;
    if (waited == SpanKind::ParameterGather) return GapCause::Gather;
    if (waited == SpanKind::DataCommunication) {
      return ends_the_rank(gap) ? GapCause::Drain : GapCause::Data;
    }
    if (waited != SpanKind::PipelineCommunication) return GapCause::Server;
    const bool queued = !party || (behind && at(*behind).kind == SpanKind::PipelineCommunication);
    if (queued) return GapCause::Pipeline;
    if (first_backward_ && gap.end <= *first_backward_) return GapCause::WarmUp;
    if (last_forward_ && gap.begin >= *last_forward_) return GapCause::Drain;
    return GapCause::Imbalance;
  }

  const Trace& trace_;
  const TraceLinks& links_;
  std::vector<SpanNumber> compute_;  // By the time they become active.
  bool in_pipeline_ = false;
  std::optional<Seconds> last_forward_, first_backward_, last_backward_;
};

}  // namespace

std::vector<Gap> find_gaps(const Trace& trace, int step) {
  const auto window = pipeline_window(trace, step);
  if (!window) return {};
  const TraceLinks links(trace);
  std::vector<Gap> gaps;
  for (Rank rank : recorded_ranks(trace)) {
    const CauseFinder finder(trace, links, rank, step);
    for (const Piece& piece : pieces(trace, rank, step, *window)) {
      if (!piece.active.empty()) continue;
      Gap gap{rank, step, piece.when, GapCause::Host, std::nullopt};
      finder.explain(gap);
      gaps.push_back(gap);
    }
  }
  return gaps;
}

}  // namespace orrery::core

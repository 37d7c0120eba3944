// What a pipeline schedule asks of the rest of the plan: core/check/plan_rules.h.

#include <fmt/format.h>

#include "core/check/plan_rules.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::core {
namespace {

std::string schedule_text(const DensePlan& d) {
  return fmt::format("dense.schedule = \"{}\"", schedule_name(d.schedule));
}

Reason chunks_mismatch(const DensePlan& d) {
  if (d.schedule != PipelineSchedule::Interleaved) {
    if (d.virtual_stages == 1) return {};
    return fmt::format(
        "dense.virtual_stages = {} needs dense.schedule = \"interleaved\", the schedule is \"{}\"",
        d.virtual_stages, schedule_name(d.schedule));
  }
  if (d.virtual_stages == 1) {
    return schedule_text(d) + " needs dense.virtual_stages of at least 2; with 1 it is \"1f1b\"";
  }
  if (d.pipeline == 1) {
    return schedule_text(d) + " needs dense.pipeline of at least 2: one stage holds all layers";
  }
  return {};
}

Reason groups_mismatch(const DensePlan& d, const Job& job) {
  if (d.schedule != PipelineSchedule::Interleaved) return {};
  const int count = microbatches(d, job.global_batch);
  if (count % d.pipeline == 0) return {};
  return fmt::format(
      "{}: microbatches go through the chunks in groups of dense.pipeline = {}, which does not "
      "divide the {} microbatches of a step; change the microbatch, a degree or the global batch",
      schedule_text(d), d.pipeline, count);
}

Reason times_mismatch(const DensePlan& d) {
  if (!computed_from_durations(d.schedule)) {
    if (!d.pass_times) return {};
    return "dense.pass_times has no effect with " + schedule_text(d) +
           "; leave it out, or use \"zb-1p\" or \"zb-2p\"";
  }
  if (!d.pass_times) {
    return schedule_text(d) +
           " is computed from durations; give forward, input_grad, weight_grad and message in "
           "[dense.pass_times]";
  }
  const PassTimes& t = *d.pass_times;
  const std::pair<const char*, Seconds> times[] = {
      {"forward", t.forward}, {"input_grad", t.input_grad}, {"weight_grad", t.weight_grad}};
  for (const auto& [key, time] : times) {
    if (time.value > 0) continue;
    return fmt::format("dense.pass_times.{} = {:g} s: must be positive", key, time.value);
  }
  if (t.message.value < 0) {
    return fmt::format("dense.pass_times.message = {:g} s: must not be negative", t.message.value);
  }
  if (!(t.kept >= 0 && t.kept <= 1)) {
    return fmt::format("dense.pass_times.kept = {:g}: must be 0 to 1", t.kept);
  }
  return {};
}

}  // namespace

Reason schedule_mismatch(const DensePlan& d, const Job& job) {
  if (auto reason = chunks_mismatch(d)) return reason;
  if (auto reason = groups_mismatch(d, job)) return reason;
  if (auto reason = times_mismatch(d)) return reason;
  if (splits_backward(d.schedule) && d.recompute != Recompute::None) {
    return fmt::format(
        "{} with dense.recompute = \"{}\": weight gradients have a pass of their own, until which "
        "the activations that they read must be kept; use \"none\"",
        schedule_text(d), recompute_name(d.recompute));
  }
  return {};
}

}  // namespace orrery::core

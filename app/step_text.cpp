#include "app/step_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/table.h"
#include "core/quantity_text.h"

namespace orrery::app {
namespace {

// More ranks than this are told by their mean alone.
constexpr std::size_t kRanksInTable = 16;

const char* unit_of(const study::Inputs& inputs) {
  return inputs.model.transformer ? "tokens" : "samples";
}

core::Seconds compute_in(const core::StepBreakdown& b) {
  core::Seconds sum;
  for (int k = 0; k < core::kSpanKinds; ++k) {
    const auto kind = static_cast<core::SpanKind>(k);
    if (core::is_compute(kind)) sum += b.of(kind);
  }
  return sum;
}

std::vector<std::string> shares(std::string name, const core::StepBreakdown& b) {
  return {std::move(name),
          core::percent(compute_in(b) / b.length),
          core::percent(b.exposed_communication() / b.length),
          core::percent(b.total_bubble() / b.length),
          core::percent(b.other / b.length),
          core::percent(b.overlap())};
}

// Everything that a mean step consists of, largest parts in their own words.
std::string parts_text(const core::StepBreakdown& mean) {
  Table table({"part of the step (mean of ranks)", "time", "share"});
  const auto add = [&](const std::string& name, core::Seconds time) {
    if (time.value > 0) table.add({name, core::text(time), core::percent(time / mean.length)});
  };
  for (int k = 0; k < core::kSpanKinds; ++k) {
    const auto kind = static_cast<core::SpanKind>(k);
    const char* suffix = core::is_communication(kind) ? " (not hidden by compute)" : "";
    add(std::string(core::span_kind_name(kind)) + suffix, mean.of(kind));
  }
  for (int c = 0; c < core::kGapCauses; ++c) {
    const auto cause = static_cast<core::GapCause>(c);
    add("bubble: " + std::string(core::gap_cause_name(cause)), mean.of(cause));
  }
  add("idle at the step's start and end", mean.other);
  return table.text();
}

std::string ranks_text(const study::StepReport& report) {
  if (report.ranks.size() < 2 || report.ranks.size() > kRanksInTable) return {};
  Table table({"rank", "compute", "communication", "bubble", "idle", "overlapped"});
  for (const core::StepBreakdown& b : report.ranks) {
    table.add(shares(std::to_string(b.rank.value), b));
  }
  return "\n" + table.text();
}

}  // namespace

std::string step_text(const study::Inputs& inputs, const study::StepReport& report) {
  std::string lines = fmt::format("step time           {}\n", core::text(report.length));
  lines += fmt::format("{:<19} {}\n", std::string(unit_of(inputs)) + " per second",
                       core::count(report.per_second));
  if (report.mfu) lines += fmt::format("MFU                 {}\n", core::percent(*report.mfu));
  lines += fmt::format("memory per device   {}", core::text(report.memory));
  lines += report.memory > report.available
               ? fmt::format(", which does NOT fit: it has {}\n", core::text(report.available))
               : fmt::format(" of {}\n", core::text(report.available));
  if (report.dollars) lines += fmt::format("price per step      ${:.4g}\n", *report.dollars);
  return lines + "\n" + parts_text(report.mean) + ranks_text(report);
}

nlohmann::json step_json(const study::Inputs& inputs, const study::StepReport& report) {
  nlohmann::json json = {
      {"step_seconds", report.length.value},
      {std::string(unit_of(inputs)) + "_per_second", report.per_second},
      {"memory_bytes", report.memory.value},
      {"memory_available_bytes", report.available.value},
      {"fits", report.memory <= report.available},
      {"bubble_share", report.mean.total_bubble() / report.mean.length},
      {"communication_share", report.mean.exposed_communication() / report.mean.length}};
  if (report.mfu) json["mfu"] = *report.mfu;
  if (report.dollars) json["dollars_per_step"] = *report.dollars;
  nlohmann::json& parts = json["seconds"];
  for (int k = 0; k < core::kSpanKinds; ++k) {
    const auto kind = static_cast<core::SpanKind>(k);
    parts[std::string(core::span_kind_name(kind))] = report.mean.of(kind).value;
  }
  nlohmann::json& bubble = json["bubble_seconds"];
  for (int c = 0; c < core::kGapCauses; ++c) {
    const auto cause = static_cast<core::GapCause>(c);
    bubble[std::string(core::gap_cause_name(cause))] = report.mean.of(cause).value;
  }
  return json;
}

}  // namespace orrery::app

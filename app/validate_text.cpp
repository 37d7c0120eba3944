#include "app/validate_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/table.h"
#include "core/quantity_text.h"

namespace orrery::app {
namespace {

using study::RowResult;
using study::SourceResult;
using study::Validation;

std::string percent_or_dash(const std::optional<double>& share, bool signed_number = false) {
  if (!share) return "-";
  return signed_number ? fmt::format("{:+.1f}%", *share * 100)
                       : fmt::format("{:.1f}%", *share * 100);
}

std::string name_of(const SourceResult& source) {
  return source.part.empty() ? source.source : "  " + source.part;
}

/// "compute 61%, recompute 19%, ...": the terms of a step, as shares of it.
std::string terms_text(const costmodel::Estimate& estimate) {
  std::string text;
  for (int t = 0; t < costmodel::kTimeTerms; ++t) {
    const double share = estimate.time[static_cast<std::size_t>(t)] / estimate.step;
    if (share < 0.001) continue;
    text +=
        fmt::format("{}{} {:.1f}%", text.empty() ? "" : ", ",
                    costmodel::time_term_name(static_cast<costmodel::TimeTerm>(t)), share * 100);
  }
  return text;
}

std::string predicted_text(const RowResult& row) {
  if (row.slowest / row.fastest < 1.0005) return core::text(row.estimate.step);
  return core::text(row.fastest) + " to " + core::text(row.slowest);
}

std::string worst_lines(const Validation& validation) {
  std::string lines;
  for (const SourceResult& source : validation.sources) {
    if (!source.worst || !source.part.empty()) continue;
    const RowResult& row = validation.rows[*source.worst];
    lines += fmt::format("  {} {} {}: {} measured, {} predicted ({:+.1f}%)\n    {}\n",
                         source.source, row.measured.id, row.plan, core::text(*row.measured.step),
                         predicted_text(row), row.error * 100, terms_text(row.estimate));
  }
  return lines.empty() ? "" : "\nworst rows\n" + lines;
}

/// Counts of each text, by source.
using Counts = std::map<std::string, std::map<std::string, int>>;

std::string counted_lines(const char* title, const Counts& counts) {
  std::string lines;
  for (const auto& [source, texts] : counts) {
    for (const auto& [what, count] : texts) {
      lines += fmt::format("  {}: {} ({} rows)\n", source, what, count);
    }
  }
  return lines.empty() ? "" : fmt::format("\n{}\n{}", title, lines);
}

nlohmann::json number_or_null(const std::optional<double>& share) {
  return share ? nlohmann::json(*share * 100) : nlohmann::json(nullptr);
}

nlohmann::json row_json(const RowResult& row) {
  const study::MeasuredStep& m = row.measured;
  nlohmann::json json = {{"id", m.id},         {"source", m.source},     {"model", m.model},
                         {"device", m.device}, {"verified", m.verified}, {"assumed", m.assumed}};
  json["measured_s"] = m.step ? nlohmann::json(m.step->value) : nlohmann::json(nullptr);
  if (!row.predicted()) {
    json["skipped"] = row.skipped;
    return json;
  }
  json["plan"] = row.plan;
  json["fitted"] = row.fitted;
  json["open"] = row.open;
  json["predicted_s"] = {row.fastest.value, row.slowest.value};
  json["error"] = row.error * 100;
  for (int t = 0; t < costmodel::kTimeTerms; ++t) {
    const auto name = costmodel::time_term_name(static_cast<costmodel::TimeTerm>(t));
    json["terms_s"][std::string(name)] = row.estimate.time[static_cast<std::size_t>(t)].value;
  }
  json["memory_gib"] = {row.least_memory.value / 1073741824.0,
                        row.most_memory.value / 1073741824.0};
  json["memory_error"] = number_or_null(row.memory_error);
  return json;
}

nlohmann::json source_json(const SourceResult& source, const Validation& validation) {
  nlohmann::json json = {{"source", source.source},
                         {"rows", source.rows},
                         {"skipped", source.skipped},
                         {"recalled", source.recalled},
                         {"fitted", source.fitted},
                         {"mape", number_or_null(source.mean_error)},
                         {"bias", number_or_null(source.bias)},
                         {"median", number_or_null(source.median_error)},
                         {"interval_width", source.interval_width * 100},
                         {"memory_mape", number_or_null(source.memory_error)},
                         {"memory_bias", number_or_null(source.memory_bias)},
                         {"regret", number_or_null(source.regret)},
                         {"regret_groups", source.regret_groups}};
  if (!source.part.empty()) json["part"] = source.part;
  if (source.worst) json["worst"] = validation.rows[*source.worst].measured.id;
  return json;
}

}  // namespace

std::string sources_text(const Validation& validation) {
  Table table({"source", "rows", "error", "bias", "median", "worst", "interval", "memory",
               "mem.bias", "regret"});
  for (const SourceResult& s : validation.sources) {
    const std::optional<double> worst =
        s.worst ? std::optional(validation.rows[*s.worst].error) : std::nullopt;
    table.add(
        {name_of(s),
         s.skipped > 0 ? fmt::format("{} of {}", s.rows, s.rows + s.skipped)
                       : fmt::format("{}", s.rows),
         percent_or_dash(s.mean_error), percent_or_dash(s.bias, true),
         percent_or_dash(s.median_error), percent_or_dash(worst, true),
         s.interval_width > 0.0005 ? core::percent(s.interval_width) : "-",
         percent_or_dash(s.memory_error), percent_or_dash(s.memory_bias, true),
         s.regret ? fmt::format("{} in {}", percent_or_dash(s.regret), s.regret_groups) : "-"});
  }
  Counts skipped, fitted, assumed, open;
  for (const RowResult& row : validation.rows) {
    const std::string& source = row.measured.source;
    if (!row.predicted()) ++skipped[source][row.skipped];
    if (row.fitted) ++fitted[source]["the host's launch time"];
    if (!row.measured.assumed.empty()) {
      ++assumed[source][fmt::format("{}", fmt::join(row.measured.assumed, ", "))];
    }
    if (!row.open.empty()) ++open[source][fmt::format("{}", fmt::join(row.open, ", "))];
  }
  return table.text() + worst_lines(validation) + counted_lines("skipped", skipped) +
         counted_lines("left out of the sums: used to fit", fitted) +
         counted_lines("not published, generally known (assumed)", assumed) +
         counted_lines("not published, predicted as an interval", open);
}

std::string rows_text(const Validation& validation) {
  Table table({"row", "model", "plan", "measured", "predicted", "error", "memory", "terms"});
  for (const RowResult& row : validation.rows) {
    if (!row.predicted()) continue;
    std::string memory = "-";
    if (row.measured.memory) {
      memory =
          fmt::format("{} {:+.1f}%", core::text(*row.measured.memory), *row.memory_error * 100);
    }
    table.add({row.measured.id + (row.measured.verified ? "" : " (recalled)"), row.measured.model,
               row.plan, core::text(*row.measured.step), predicted_text(row),
               fmt::format("{:+.1f}%", row.error * 100), memory, terms_text(row.estimate)});
  }
  return table.text();
}

nlohmann::json validation_json(const Validation& validation) {
  nlohmann::json json = {{"rows", nlohmann::json::array()},
                         {"sources", nlohmann::json::array()},
                         {"parts", nlohmann::json::array()}};
  for (const RowResult& row : validation.rows) json["rows"].push_back(row_json(row));
  for (const SourceResult& source : validation.sources) {
    json[source.part.empty() ? "sources" : "parts"].push_back(source_json(source, validation));
  }
  return json;
}

}  // namespace orrery::app

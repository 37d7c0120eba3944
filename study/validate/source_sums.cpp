#include "study/validate/source_sums.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

namespace orrery::study {
namespace {

using Indices = std::vector<std::size_t>;

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> magnitudes(std::vector<double> values) {
  for (double& v : values) v = std::abs(v);
  return values;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2.0;
}

/// Rows that differ only in their plan share this.
auto question_of(const MeasuredStep& s) {
  return std::make_tuple(s.model, s.layers, s.hidden, s.heads, s.kv_heads, s.ffn, s.vocab,
                         s.sequence, s.device, s.devices, s.devices_per_node,
                         s.node_network.value_or(core::BytesPerSecond(0)).value, s.global_batch,
                         s.precision, s.framework, s.attention);
}

/// What of the plan a row says.
auto plan_of(const MeasuredStep& s) {
  return std::make_tuple(s.data, s.tensor, s.pipeline, s.context, s.expert, s.sharding_stage,
                         s.virtual_stages, s.schedule, s.microbatch, s.recompute,
                         s.sequence_parallel);
}

/// A plan that was measured, once or several times: its fastest.
struct MeasuredPlan {
  double predicted = 0.0;
  double measured = 0.0;
};

void add_regret(SourceResult& source, const std::vector<RowResult>& rows, const Indices& counted) {
  using Question = decltype(question_of(rows.front().measured));
  using Plan = decltype(plan_of(rows.front().measured));
  std::map<Question, std::map<Plan, MeasuredPlan>> groups;
  for (const std::size_t i : counted) {
    const MeasuredStep& step = rows[i].measured;
    const MeasuredPlan row{rows[i].estimate.step.value, step.step->value};
    const auto [plan, added] = groups[question_of(step)].try_emplace(plan_of(step), row);
    if (!added && row.measured < plan->second.measured) plan->second = row;
  }
  std::vector<double> regrets;
  for (const auto& [question, plans] : groups) {
    if (plans.size() < 2) continue;
    const auto least = [&plans = plans](double MeasuredPlan::*time) {
      return std::min_element(
                 plans.begin(), plans.end(),
                 [time](const auto& a, const auto& b) { return a.second.*time < b.second.*time; })
          ->second;
    };
    regrets.push_back(
        least(&MeasuredPlan::predicted).measured / least(&MeasuredPlan::measured).measured - 1.0);
  }
  source.regret = mean(regrets);
  source.regret_groups = static_cast<int>(regrets.size());
}

SourceResult sums_of(const std::vector<RowResult>& rows, const Indices& members) {
  SourceResult source;
  source.source = rows[members.front()].measured.source;
  Indices counted;
  std::vector<double> errors, memory_errors, widths;
  for (const std::size_t i : members) {
    const RowResult& row = rows[i];
    if (!row.predicted()) ++source.skipped;
    if (!row.measured.verified) ++source.recalled;
    if (row.fitted) ++source.fitted;
    if (!row.counted()) continue;
    counted.push_back(i);
    errors.push_back(row.error);
    widths.push_back(row.slowest / row.fastest - 1.0);
    if (row.memory_error) memory_errors.push_back(*row.memory_error);
    if (!source.worst || std::abs(row.error) > std::abs(rows[*source.worst].error)) {
      source.worst = i;
    }
  }
  source.rows = static_cast<int>(counted.size());
  source.mean_error = mean(magnitudes(errors));
  source.bias = mean(errors);
  source.median_error = median(magnitudes(errors));
  source.memory_error = mean(magnitudes(memory_errors));
  source.memory_bias = mean(memory_errors);
  source.interval_width = mean(widths).value_or(0.0);
  if (!counted.empty()) add_regret(source, rows, counted);
  return source;
}

void add_parts(std::vector<SourceResult>& sources, const std::vector<RowResult>& rows,
               const Indices& members,
               const std::function<std::string(const MeasuredStep&)>& name) {
  std::map<std::string, Indices> parts;
  for (const std::size_t i : members) parts[name(rows[i].measured)].push_back(i);
  if (parts.size() < 2) return;
  for (const auto& [part, indices] : parts) {
    sources.push_back(sums_of(rows, indices));
    sources.back().part = part;
  }
}

std::string nodes_of(const MeasuredStep& s) {
  const bool one = s.devices.value_or(1) <= s.devices_per_node.value_or(8);
  return one ? "one node" : "several nodes";
}

}  // namespace

std::vector<SourceResult> source_sums(const std::vector<RowResult>& rows) {
  std::vector<std::string> order;
  std::map<std::string, Indices> by_source;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Indices& members = by_source[rows[i].measured.source];
    if (members.empty()) order.push_back(rows[i].measured.source);
    members.push_back(i);
  }
  std::vector<SourceResult> sources;
  for (const std::string& source : order) {
    const Indices& members = by_source[source];
    sources.push_back(sums_of(rows, members));
    add_parts(sources, rows, members, nodes_of);
    add_parts(sources, rows, members, [](const MeasuredStep& s) { return s.device; });
  }
  return sources;
}

}  // namespace orrery::study

#include "app/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/quantity_text.h"
#include "app/table.h"
#include "study/plan_study.h"

namespace orrery::app {
namespace {

using costmodel::Estimate;
using costmodel::RankedPlan;

double speed_of(const Estimate& e) { return e.tokens_per_second.value_or(e.samples_per_second); }

const char* unit_of(const PlanQuestion& question) {
  return question.model.transformer ? "tokens/s" : "samples/s";
}

// The plan's speed, by simulation where it was simulated.
double final_speed(const RankedPlan& ranked) {
  return speed_of(ranked.estimate) * (ranked.estimate.step / study::step_of(ranked));
}

core::Bytes memory_of(const Estimate& e) {
  core::Bytes sum;
  for (const core::Bytes term : e.memory) sum += term;
  return sum;
}

std::string plans_table(const PlanQuestion& question, const costmodel::SearchResult& result) {
  // Columns that say nothing of any of these plans are left out.
  const auto any = [&](auto says) {
    return std::any_of(result.ranked.begin(), result.ranked.end(),
                       [&](const RankedPlan& r) { return says(r.estimate); });
  };
  const bool mfu = any([](const Estimate& e) { return e.mfu.has_value(); });
  const bool bubble = any([](const Estimate& e) { return e.bubble_share > 0; });
  std::vector<std::string> head = {"plan", "estimate", "simulated", unit_of(question), "memory"};
  if (mfu) head.emplace_back("MFU");
  if (bubble) head.emplace_back("bubble");
  head.emplace_back("comm.");
  Table table(std::move(head));
  for (const RankedPlan& ranked : result.ranked) {
    const Estimate& e = ranked.estimate;
    std::vector<std::string> row = {core::describe(ranked.plan), text(e.step),
                                    ranked.refined ? text(*ranked.refined) : "-",
                                    count(final_speed(ranked)), text(memory_of(e))};
    if (mfu) row.push_back(e.mfu ? percent(*e.mfu * (e.step / study::step_of(ranked))) : "-");
    if (bubble) row.push_back(percent(e.bubble_share));
    row.push_back(percent(e.communication_share));
    table.add(std::move(row));
  }
  return table.text();
}

// Speed of one card × cards × scaling efficiency, as the article of 4D hybrid parallelism has it.
std::string product_table(const PlanQuestion& question, const costmodel::SearchResult& result) {
  Table table({"speed of one x cards x scaling efficiency", "one card", "cards", "efficiency",
               unit_of(question)});
  for (const RankedPlan& ranked : result.ranked) {
    const Estimate& e = ranked.estimate;
    const double speed = final_speed(ranked);
    table.add({core::describe(ranked.plan), fmt::format("{:.4g}", e.speed_of_one),
               std::to_string(e.devices), percent(speed / (e.speed_of_one * e.devices)),
               count(speed)});
  }
  return table.text();
}

// Breaks text into lines of at most 100 columns, indented.
std::string wrapped(const std::string& words, std::size_t indent) {
  constexpr std::size_t kColumns = 100;
  const std::string margin(indent, ' ');
  std::string lines;
  std::string line = margin;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    if (line.size() > indent && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = margin;
    }
    line += (line.size() > indent ? " " : "") + word;
    at = end + 1;
  }
  return lines + line + "\n";
}

std::string best_against_next(const costmodel::SearchResult& result) {
  if (result.ranked.size() < 2) return {};
  const RankedPlan& best = result.ranked[0];
  const RankedPlan& next = result.ranked[1];
  std::string why = "Why the best beats the next: " + core::describe(next.plan) + " takes ";
  if (best.refined && next.refined) {
    why += fmt::format("{} when simulated, against {}", text(*next.refined), text(*best.refined));
  } else {
    why += fmt::format("{}, against {}", text(next.estimate.step), text(best.estimate.step));
  }
  // The simulator may see what the estimate does not: links shared by unlike communications.
  why += next.estimate.step > best.estimate.step
             ? "; by the estimate " + costmodel::why_slower(best.estimate, next.estimate) + "."
             : "; the estimate, which lets no two kinds of communication meet on a link, sees no "
               "such difference.";
  return "\n" + wrapped(why, 0);
}

}  // namespace

std::string plans_text(const PlanQuestion& question, const costmodel::SearchResult& result) {
  return fmt::format("{} plans can be lowered, {} of them do not fit in memory.\n\n",
                     count(static_cast<double>(result.candidates)),
                     count(static_cast<double>(result.do_not_fit))) +
         plans_table(question, result) + "\n" + product_table(question, result) +
         best_against_next(result);
}

std::string explanation_text(const PlanQuestion& question, const costmodel::SearchResult& result) {
  const RankedPlan& best = result.ranked.front();
  std::string lines = "\n" + core::describe(best.plan) + ", term by term (estimate):\n";
  for (const auto& term : costmodel::explain(best.estimate, best.plan, question.model,
                                             question.cluster, question.job)) {
    const std::string value = term.unit == costmodel::Explanation::Unit::Seconds
                                  ? text(core::Seconds(term.value))
                                  : text(core::Bytes(term.value));
    lines += fmt::format("  {:>9}  {}\n", value, term.term) + wrapped(term.text, 13);
  }
  lines += "\nWell-known kinds of plan:\n";
  for (const auto& alternative : result.alternatives) {
    lines +=
        wrapped(alternative.name +
                    (alternative.best ? " (" + core::describe(alternative.best->plan) + ")" : "") +
                    ": " + alternative.verdict,
                2);
  }
  return lines;
}

nlohmann::json plans_json(const PlanQuestion& question, const costmodel::SearchResult& result) {
  nlohmann::json json = {{"candidates", result.candidates}, {"do_not_fit", result.do_not_fit}};
  for (const RankedPlan& ranked : result.ranked) {
    const Estimate& e = ranked.estimate;
    nlohmann::json plan = {{"plan", core::describe(ranked.plan)},
                           {"estimated_step_seconds", e.step.value},
                           {unit_of(question), final_speed(ranked)},
                           {"memory_bytes", memory_of(e).value},
                           {"bubble_share", e.bubble_share},
                           {"communication_share", e.communication_share},
                           {"speed_of_one", e.speed_of_one},
                           {"scaling_efficiency", e.scaling_efficiency},
                           {"devices", e.devices}};
    if (ranked.refined) plan["simulated_step_seconds"] = ranked.refined->value;
    if (e.mfu) plan["mfu"] = *e.mfu;
    if (e.dollars_per_step) plan["dollars_per_step"] = *e.dollars_per_step;
    if (e.joules_per_step) plan["joules_per_step"] = *e.joules_per_step;
    for (int t = 0; t < costmodel::kTimeTerms; ++t) {
      const auto term = static_cast<costmodel::TimeTerm>(t);
      plan["seconds"][std::string(costmodel::time_term_name(term))] =
          e.time[static_cast<std::size_t>(t)].value;
    }
    json["plans"].push_back(std::move(plan));
  }
  for (const auto& alternative : result.alternatives) {
    json["alternatives"][alternative.name] = alternative.verdict;
  }
  return json;
}

}  // namespace orrery::app

#include "app/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "app/table.h"
#include "app/wrapped.h"
#include "core/quantity_text.h"
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

using Plans = std::span<const RankedPlan>;

std::string plans_table(const PlanQuestion& question, Plans plans) {
  // Columns that say nothing of any of these plans are left out.
  const auto any = [&](auto says) {
    return std::any_of(plans.begin(), plans.end(),
                       [&](const RankedPlan& r) { return says(r.estimate); });
  };
  const bool mfu = any([](const Estimate& e) { return e.mfu.has_value(); });
  const bool bubble = any([](const Estimate& e) { return e.bubble_share > 0; });
  std::vector<std::string> head = {"plan", "estimate", "simulated", unit_of(question), "memory"};
  if (mfu) head.emplace_back("MFU");
  if (bubble) head.emplace_back("bubble");
  head.emplace_back("comm.");
  Table table(std::move(head));
  for (const RankedPlan& ranked : plans) {
    const Estimate& e = ranked.estimate;
    std::vector<std::string> row = {core::describe(ranked.plan), core::text(e.step),
                                    ranked.refined ? core::text(*ranked.refined) : "-",
                                    (ranked.refined ? "" : "~") + core::count(final_speed(ranked)),
                                    core::text(memory_of(e))};
    if (mfu) row.push_back(e.mfu ? core::percent(*e.mfu * (e.step / study::step_of(ranked))) : "-");
    if (bubble) row.push_back(core::percent(e.bubble_share));
    row.push_back(core::percent(e.communication_share));
    table.add(std::move(row));
  }
  return table.text();
}

// Speed of one card × cards × scaling efficiency, as the article of 4D hybrid parallelism has it.
std::string product_table(const PlanQuestion& question, Plans plans) {
  Table table({"speed of one x cards x scaling efficiency", "one card", "cards", "efficiency",
               unit_of(question)});
  for (const RankedPlan& ranked : plans) {
    const Estimate& e = ranked.estimate;
    const double speed = final_speed(ranked);
    table.add({core::describe(ranked.plan), fmt::format("{:.4g}", e.speed_of_one),
               std::to_string(e.devices), core::percent(speed / (e.speed_of_one * e.devices)),
               core::count(speed)});
  }
  return table.text();
}

std::string best_against_next(const costmodel::SearchResult& result) {
  if (result.ranked.size() < 2) return {};
  const RankedPlan& best = result.ranked[0];
  const RankedPlan& next = result.ranked[1];
  std::string why = "Why the best beats the next: " + core::describe(next.plan) + " takes ";
  if (best.refined && next.refined) {
    why += fmt::format("{} when simulated, against {}", core::text(*next.refined),
                       core::text(*best.refined));
  } else {
    why += fmt::format("{}, against {}", core::text(next.estimate.step),
                       core::text(best.estimate.step));
  }
  // The simulator may see what the estimate does not: links shared by unlike communications.
  why += next.estimate.step > best.estimate.step
             ? "; by the estimate " + costmodel::why_slower(best.estimate, next.estimate) + "."
             : "; the estimate, which lets no two kinds of communication meet on a link, sees no "
               "such difference.";
  return "\n" + wrapped(why, 0);
}

/// The plans that the estimate cannot tell from the best.
Plans within_error(const costmodel::SearchResult& result) {
  const core::Seconds most = study::step_of(result.ranked.front()) * (1 + costmodel::kModelError);
  const auto end = std::find_if(result.ranked.begin(), result.ranked.end(),
                                [&](const RankedPlan& r) { return study::step_of(r) > most; });
  return {result.ranked.begin(), end};
}

/// "8", or "4 to 16" where plans differ.
template <class Value>
std::string range_of(Plans plans, Value value_of) {
  int least = value_of(*plans.front().plan.dense);
  int most = least;
  for (const RankedPlan& ranked : plans) {
    least = std::min(least, value_of(*ranked.plan.dense));
    most = std::max(most, value_of(*ranked.plan.dense));
  }
  return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
}

std::string equals_of_best(const costmodel::SearchResult& result) {
  const Plans plans = within_error(result);
  std::string words = fmt::format(
      "{}{} plans are within {:.0f}% of the best, the error to be expected of an estimate",
      plans.size() == result.ranked.size() ? "At least " : "", plans.size(),
      100 * costmodel::kModelError);
  if (plans.size() == 1) words = "No other plan is within the error to be expected of an estimate";
  if (plans.size() > 1 && plans.front().plan.dense) {
    using Dense = core::DensePlan;
    words += fmt::format(": tensor {}, pipeline {}, data ways {}, microbatch {}",
                         range_of(plans, [](const Dense& d) { return d.tensor; }),
                         range_of(plans, [](const Dense& d) { return d.pipeline; }),
                         range_of(plans, [](const Dense& d) { return d.data_ways(); }),
                         range_of(plans, [](const Dense& d) { return d.microbatch; }));
  }
  return "\n" + wrapped(words + ".", 0);
}

}  // namespace

std::string plans_text(const PlanQuestion& question, const costmodel::SearchResult& result,
                       std::size_t shown) {
  const Plans plans(result.ranked.data(), shown);
  return fmt::format("{} plans can be lowered, {} of them do not fit in memory.\n\n",
                     core::count(static_cast<double>(result.candidates)),
                     core::count(static_cast<double>(result.do_not_fit))) +
         plans_table(question, plans) + "\n" + product_table(question, plans) +
         best_against_next(result) + equals_of_best(result);
}

std::string explanation_text(const PlanQuestion& question, const costmodel::SearchResult& result) {
  const RankedPlan& best = result.ranked.front();
  std::string lines = "\n" + core::describe(best.plan) + ", term by term (estimate):\n";
  for (const auto& term : costmodel::explain(best.estimate, best.plan, question.model,
                                             question.cluster, question.job)) {
    const std::string value = term.unit == costmodel::Explanation::Unit::Seconds
                                  ? core::text(core::Seconds(term.value))
                                  : core::text(core::Bytes(term.value));
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

std::string constants_text(const std::vector<core::SourcedConstant>& constants) {
  std::string lines = "\nConstants and their sources:\n";
  for (const core::SourcedConstant& constant : constants) {
    lines += wrapped(constant.name + " " + constant.value + ": " + constant.source, 2);
  }
  return lines;
}

namespace {

nlohmann::json plan_json(const PlanQuestion& question, const RankedPlan& ranked) {
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
  return plan;
}

}  // namespace

nlohmann::json plans_json(const PlanQuestion& question, const costmodel::SearchResult& result,
                          std::size_t shown) {
  nlohmann::json json = {{"candidates", result.candidates},
                         {"do_not_fit", result.do_not_fit},
                         {"within_error_of_best", within_error(result).size()},
                         {"error", costmodel::kModelError}};
  for (std::size_t i = 0; i < shown; ++i) {
    json["plans"].push_back(plan_json(question, result.ranked[i]));
  }
  for (const auto& alternative : result.alternatives) {
    json["alternatives"][alternative.name] = alternative.verdict;
  }
  return json;
}

std::string front_text(const PlanQuestion& question,
                       const std::vector<costmodel::PartPlan>& front) {
  const bool priced = std::any_of(front.begin(), front.end(), [](const auto& part) {
    return part.best.estimate.dollars_per_step.has_value();
  });
  std::vector<std::string> head = {"best plan", "devices", "estimate", unit_of(question)};
  if (priced)
    head.insert(head.end(),
                {"$/step", question.model.transformer ? "$/1M tokens" : "$/1M samples"});
  Table table(std::move(head));
  for (const costmodel::PartPlan& part : front) {
    const Estimate& e = part.best.estimate;
    std::vector<std::string> row = {core::describe(part.best.plan), std::to_string(e.devices),
                                    core::text(e.step), core::count(speed_of(e))};
    if (priced) {
      const double dollars = e.dollars_per_step.value_or(0);
      row.push_back(fmt::format("{:.3g}", dollars));
      row.push_back(fmt::format("{:.3g}", 1e6 * dollars / (speed_of(e) * e.step.value)));
    }
    table.add(std::move(row));
  }
  return table.text() + "\n" +
         wrapped(
             "Of the best plans of parts of the cluster, those that no other beats in step time, "
             "devices and money.",
             0);
}

nlohmann::json front_json(const PlanQuestion& question,
                          const std::vector<costmodel::PartPlan>& front) {
  nlohmann::json json;
  for (const costmodel::PartPlan& part : front) {
    json["plans"].push_back(plan_json(question, part.best));
  }
  return json;
}

}  // namespace orrery::app

#include "app/compare_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "app/table.h"
#include "app/wrapped.h"
#include "core/quantity_text.h"
#include "costmodel/search.h"

namespace orrery::app {
namespace {

using core::DensePlan;
using study::ComparedPlan;
using Columns = std::vector<ComparedPlan>;

core::Seconds step_of(const ComparedPlan& c) { return c.simulated.value_or(c.estimate.step); }

double tokens_per_second(const ComparedPlan& c) {
  return c.estimate.tokens_per_second.value_or(0) * (c.estimate.step / step_of(c));
}

class SideBySide {
 public:
  explicit SideBySide(const Columns& columns) : columns_(columns), table_(head()) {}

  void add(const std::string& name, const std::function<std::string(const ComparedPlan&)>& cell) {
    std::vector<std::string> row = {name};
    for (const ComparedPlan& column : columns_) row.push_back(cell(column));
    table_.add(std::move(row));
  }
  void add_degree(const std::string& name, const std::function<int(const DensePlan&)>& degree) {
    add(name, [&](const ComparedPlan& c) { return std::to_string(degree(*c.plan.dense)); });
  }
  /// What devices send, with a row for each kind of which some plan has any.
  void add_traffic(const std::string& name,
                   std::array<core::Bytes, core::kSpanKinds> core::Traffic::*tier) {
    add(name, [&](const ComparedPlan& c) { return core::text(total(c.traffic.*tier)); });
    for (std::size_t k = 0; k < core::kSpanKinds; ++k) {
      const bool any = std::any_of(columns_.begin(), columns_.end(), [&](const ComparedPlan& c) {
        return (c.traffic.*tier)[k].value > 0;
      });
      if (!any) continue;
      const auto kind = static_cast<core::SpanKind>(k);
      add("  " + std::string(core::span_kind_name(kind)),
          [&](const ComparedPlan& c) { return core::text((c.traffic.*tier)[k]); });
    }
  }
  std::string text_of() const { return table_.text(); }

 private:
  std::vector<std::string> head() const {
    std::vector<std::string> names = {"plan"};
    for (const ComparedPlan& column : columns_) names.push_back(column.name);
    return names;
  }
  const Columns& columns_;
  Table table_;
};

void add_layout(SideBySide& table) {
  table.add_degree("data-parallel ways", [](const DensePlan& d) { return d.data_ways(); });
  table.add("  sharded over (ZeRO stage)", [](const ComparedPlan& c) {
    const DensePlan& d = *c.plan.dense;
    return d.sharding_stage == 0 ? "-"
                                 : fmt::format("{} ({})", d.shared_sharding(), d.sharding_stage);
  });
  table.add_degree("tensor", [](const DensePlan& d) { return d.tensor; });
  table.add_degree("pipeline", [](const DensePlan& d) { return d.pipeline; });
  table.add_degree("context", [](const DensePlan& d) { return d.context; });
  table.add_degree("expert", [](const DensePlan& d) { return d.expert_ways(); });
  table.add("schedule", [](const ComparedPlan& c) {
    const DensePlan& d = *c.plan.dense;
    const std::string chunks = d.virtual_stages > 1 ? fmt::format(" x{}", d.virtual_stages) : "";
    return std::string(core::schedule_name(d.schedule)) + chunks;
  });
  table.add("microbatches x sequences", [](const ComparedPlan& c) {
    return fmt::format("{} x {}", c.estimate.microbatches, c.plan.dense->microbatch);
  });
  table.add("recompute", [](const ComparedPlan& c) {
    return std::string(core::recompute_name(c.plan.dense->recompute));
  });
}

void add_costs(SideBySide& table) {
  table.add("memory per device", [](const ComparedPlan& c) {
    return core::text(costmodel::total(c.estimate.memory)) + (c.does_not_fit ? " (too much)" : "");
  });
  table.add("step, estimated", [](const ComparedPlan& c) { return core::text(c.estimate.step); });
  table.add("step, simulated",
            [](const ComparedPlan& c) { return c.simulated ? core::text(*c.simulated) : "-"; });
  table.add("tokens/s", [](const ComparedPlan& c) { return core::count(tokens_per_second(c)); });
  table.add("MFU", [](const ComparedPlan& c) {
    return core::percent(c.estimate.mfu.value_or(0) * (c.estimate.step / step_of(c)));
  });
  table.add("pipeline bubble",
            [](const ComparedPlan& c) { return core::percent(c.estimate.bubble_share); });
  table.add("exposed communication",
            [](const ComparedPlan& c) { return core::percent(c.estimate.communication_share); });
}

std::string verdict(const ComparedPlan& best, const ComparedPlan& other) {
  std::string words = fmt::format("{}, {}: ", other.name, core::describe(other.plan));
  if (other.does_not_fit) return wrapped(words + *other.does_not_fit + ".", 0);
  if (best.simulated && other.simulated) {
    words += fmt::format("{:.2f} times as long when simulated; estimated, ",
                         *other.simulated / *best.simulated);
  }
  words += costmodel::why_slower(best.estimate, other.estimate);
  if (other.faster) {
    words += fmt::format("; by estimate {} plans of the search are faster",
                         core::count(static_cast<double>(*other.faster)));
  }
  return wrapped(words + ".", 0);
}

nlohmann::json plan_json(const ComparedPlan& c) {
  nlohmann::json json = {{"name", c.name},
                         {"plan", core::describe(c.plan)},
                         {"data_ways", c.plan.dense->data_ways()},
                         {"estimated_step_seconds", c.estimate.step.value},
                         {"tokens/s", tokens_per_second(c)},
                         {"memory_bytes", costmodel::total(c.estimate.memory).value},
                         {"fits", !c.does_not_fit},
                         {"bubble_share", c.estimate.bubble_share},
                         {"communication_share", c.estimate.communication_share},
                         {"within_node_bytes", total(c.traffic.within_node).value},
                         {"between_nodes_bytes", total(c.traffic.between_nodes).value}};
  if (c.simulated) json["simulated_step_seconds"] = c.simulated->value;
  if (c.faster) json["faster_plans"] = *c.faster;
  return json;
}

}  // namespace

std::string side_by_side_text(const std::vector<ComparedPlan>& plans) {
  SideBySide table(plans);
  add_layout(table);
  add_costs(table);
  table.add_traffic("sent within a node", &core::Traffic::within_node);
  table.add_traffic("sent between nodes", &core::Traffic::between_nodes);
  std::string lines = "\nSide by side; what is sent, by a device in a step, on average\n\n" +
                      table.text_of() + "\n";
  for (std::size_t i = 1; i < plans.size(); ++i) lines += verdict(plans.front(), plans[i]);
  return lines;
}

nlohmann::json side_by_side_json(const std::vector<ComparedPlan>& plans) {
  nlohmann::json json = nlohmann::json::array();
  for (const ComparedPlan& plan : plans) json.push_back(plan_json(plan));
  return json;
}

}  // namespace orrery::app

#include "app/disturbances_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/table.h"
#include "core/quantity_text.h"

namespace orrery::app {
namespace {

// Ranks that others wait for, told by name.
constexpr std::size_t kRanksShown = 5;

std::string costs_text(const Disturbances& d) {
  Table table({"what disturbs the step", "costs", "of the step"});
  for (const study::DisturbanceCost& one : d.costs) {
    table.add({one.what, core::text(one.costs), core::percent(one.costs / d.step)});
  }
  return table.text();
}

std::string waits_text(const Disturbances& d) {
  Table table({"ranks wait for (beside warm-up and drain)", "share of all ranks' time"});
  for (std::size_t i = 0; i < std::min(kRanksShown, d.waited.size()); ++i) {
    const core::WaitedFor& one = d.waited[i];
    table.add({one.ranks == 1
                   ? fmt::format("rank {}", one.rank.value)
                   : fmt::format("rank {} and {} like it", one.rank.value, one.ranks - 1),
               core::percent(one.share)});
  }
  return table.text();
}

std::string links_text(const Disturbances& d) {
  Table table({"links", "number", "full for", "twice as fast saves", "of the step"});
  for (const sim::LinkGain& one : d.links) {
    table.add({one.whole_kind ? one.name : one.name + " and its like", std::to_string(one.links),
               core::text(one.full), core::text(one.saves), core::percent(one.saves / d.step)});
  }
  return table.text();
}

}  // namespace

std::string disturbances_text(const Disturbances& d) {
  std::string text;
  if (!d.costs.empty()) text += "\n" + costs_text(d);
  if (!d.waited.empty()) text += "\n" + waits_text(d);
  if (!d.links.empty()) text += "\n" + links_text(d);
  return text;
}

void add_disturbances(nlohmann::json& json, const Disturbances& d) {
  for (const study::DisturbanceCost& one : d.costs) {
    json["disturbances"].push_back({{"what", one.what}, {"costs_seconds", one.costs.value}});
  }
  for (const core::WaitedFor& one : d.waited) {
    json["waited_for"].push_back({{"rank", one.rank.value},
                                  {"ranks", one.ranks},
                                  {"idle_seconds", one.waited.value},
                                  {"share", one.share}});
  }
  for (const sim::LinkGain& one : d.links) {
    json["link_gains"].push_back({{"link", one.name},
                                  {"links", one.links},
                                  {"full_seconds", one.full.value},
                                  {"saves_seconds", one.saves.value}});
  }
}

}  // namespace orrery::app

// Fits what NCCL's collectives cost per network generation to data/validation/nccl_busbw.csv, prints
// the TOML lines for configs/clusters and how far the sweeps lie that no fit has seen. Run by
// bench/fit_collectives.sh.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "costmodel/collective_fit.h"

namespace {

using orrery::core::Bytes;
using orrery::core::BytesPerSecond;
using orrery::core::CollectiveKind;
using orrery::core::Seconds;
using orrery::costmodel::CollectiveErrors;
using orrery::costmodel::CollectiveSample;
using orrery::costmodel::FabricCost;
using orrery::costmodel::FabricParameter;

constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;

struct Row {
  std::string id;
  CollectiveSample sample;
};

// A CSV line with double quotes around fields that hold commas.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// Bus bandwidth is `factor` times the buffer over the time: nccl-tests, doc/PERFORMANCE.md.
double bus_factor(CollectiveKind kind, double n) {
  return kind == CollectiveKind::AllReduce ? 2 * (n - 1) / n : (n - 1) / n;
}

std::vector<Row> read_rows(const std::string& path) {
  enum { kId, kGpu, kRanks, kNodes, kCollective, kBytes, kBus };
  std::vector<Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto f = fields_of(line);
    if (f.size() <= kBus || f[kId] == "id") continue;
    const double bytes = std::strtod(f[kBytes].c_str(), nullptr);
    if (bytes <= 0) continue;
    CollectiveSample s;
    const std::string& what = f[kCollective];
    if (what.rfind("all_gather", 0) == 0) s.kind = CollectiveKind::AllGather;
    if (what.rfind("reduce_scatter", 0) == 0) s.kind = CollectiveKind::ReduceScatter;
    s.in_switch = what.find("ring") == std::string::npos;
    s.bytes = Bytes(bytes);
    const int ranks = std::atoi(f[kRanks].c_str());
    s.where.nodes = std::atoi(f[kNodes].c_str());
    s.where.members_per_node = s.where.users_per_node = ranks / s.where.nodes;
    s.time =
        Seconds(bus_factor(s.kind, ranks) * bytes / (std::strtod(f[kBus].c_str(), nullptr) * 1e9));
    rows.push_back({f[kId], s});
  }
  return rows;
}

/// Rows whose id begins so, of a range of buffer sizes, taken together.
struct Sweep {
  std::string prefix;
  std::string what;
  double least = kMiB;
  double below = 1e300;
};

/// Parameters that are fitted at once; what an earlier stage fitted stays.
struct Stage {
  std::vector<FabricParameter> free;
  std::vector<Sweep> sweeps;
};

/// A network and the sweeps made on it.
struct Generation {
  std::string name;
  FabricCost fabric;  ///< Where the fit starts; what it found.
  std::vector<Stage> stages;
  std::vector<Sweep> left_out;
};

// NCCL (2026), src/graph/tuning.cc: latencies of a ring's step over NVLink and over the network for
// Simple, LL128, LL in us; LL128's and trees' share of the bandwidth; src/graph/topo.h: GB/s that
// NCCL counts on per NVLink.
constexpr double kStep = 3.4, kStepLL128 = 1.9, kStepLL = 0.6;
constexpr double kNetworkStep = 14, kNetworkStepLL128 = 4, kNetworkStepLL = 2.7;
constexpr double kShareLL128 = 0.92, kShareTree = 0.92;

FabricCost nccl(double port_gigabytes) {
  FabricCost fabric;
  fabric.inside = Seconds(kStep * 1e-6);
  fabric.across = Seconds(kNetworkStep * 1e-6);
  fabric.port = BytesPerSecond(port_gigabytes * 1e9);
  auto& library = fabric.collectives;
  library.base = Seconds(10e-6);
  library.tree_wire = 1 / kShareTree;
  library.ll128 = {.step = kStepLL128 / kStep,
                   .network_step = kNetworkStepLL128 / kNetworkStep,
                   .wire = 1 / kShareLL128};
  library.ll = {
      .step = kStepLL / kStep, .network_step = kNetworkStepLL / kNetworkStep, .wire = 2.0};
  return fabric;
}

FabricCost with_switch(FabricCost fabric, double share) {
  fabric.collectives.in_switch =
      orrery::core::InSwitchCost{Seconds(25e-6), 1 / share};  // tuning.cc: NVLS 25 us.
  return fabric;
}

Sweep vtrain(const char* gpu, int n) {
  return {fmt::format("vtrain_{}_{}g_", gpu, n), fmt::format("{} of a node", n)};
}

Generation ampere() {
  using P = FabricParameter;
  FabricCost start = nccl(12 * 20);
  start.collectives.ring_ends = 0.5;
  return {"A100, NVLink 3 through NVSwitch",
          start,
          {{{P::Port, P::Inside, P::Base, P::RingEnds, P::LLWire},
            {vtrain("a100", 2),
             vtrain("a100", 4),
             vtrain("a100", 8),
             {"a100x8_ar_", "8 of a node, below 1 MiB", 0, kMiB}}}},
          {vtrain("a100", 3),
           vtrain("a100", 5),
           vtrain("a100", 6),
           vtrain("a100", 7),
           {"a100x8_ar_", "8 of a node, another benchmark"}}};
}

// No sweep below 1 MiB: LL as on A100.
Generation volta(const FabricCost& a100) {
  using P = FabricParameter;
  FabricCost start = nccl(6 * 20);
  start.cube_mesh = true;
  start.collectives.ll = a100.collectives.ll;
  return {"V100, hybrid cube mesh of NVLink 2",
          start,
          {{{P::Port, P::Inside, P::Base},
            {vtrain("v100", 2), vtrain("v100", 4), vtrain("v100", 5), vtrain("v100", 8)}}},
          {vtrain("v100", 3), vtrain("v100", 6), vtrain("v100", 7)}};
}

// The port from a ring alone, so that sums in the switch do not hide it. One number of ranks does
// not tell a step from the base: α stays NCCL's.
std::vector<Stage> with_sums(const char* ring, const char* sweep) {
  using P = FabricParameter;
  return {{{P::Port}, {{ring, "8 of a node, no sums in the switch"}}},
          {{P::Base, P::LLWire, P::InSwitchLatency, P::InSwitchWire},
           {{sweep, "8 of a node, from 32 KiB", 0}}}};
}

Generation hopper() {
  return {"H200, NVLink 4 through NVSwitch with sums",
          with_switch(nccl(18 * 20.6), 0.85),
          with_sums("h200x8_16G_all_reduce_ring", "h200x8_ar_"),
          {{"h200_ar8G_", "4 to 8 of a node, with and without sums"},
           {"h200x8_16G_all_gather", "8 of a node, all-gather"},
           {"h200x8_16G_reduce_scatter", "8 of a node, reduce-scatter"}}};
}

Generation blackwell() {
  return {"B200, NVLink 5 through NVSwitch with sums",
          with_switch(nccl(18 * 40.1), 0.74),
          with_sums("b200_ar8G_8gpu_ring", "b200x8_ar_"),
          {{"b200_ar8G_4", "4 of a node, with and without sums"},
           {"b200_ar8G_5", "5 of a node, with and without sums"},
           {"b200_ar8G_6", "6 of a node, with and without sums"},
           {"b200_ar8G_7", "7 of a node, with and without sums"}}};
}

// Between nodes, over what was fitted within them: cards from what is bound by bandwidth. EFA's
// latency is the cards' own, whatever the protocol.
Generation between_nodes(const FabricCost& inside) {
  using P = FabricParameter;
  Generation g{"B200, 4 nodes with 8 network cards of 50 GB/s each (EFA)",
               inside,
               {{{P::Card}, {{"b200x32_ar_", "32 on 4 nodes, from 1 GiB", kGiB}}},
                {{P::Across}, {{"b200x32_ar_", "32 on 4 nodes"}}}},
               {}};
  g.fabric.card = BytesPerSecond(50e9);
  g.fabric.collectives.ll128->network_step = 1.0;
  g.fabric.collectives.ll->network_step = 1.0;
  return g;
}

std::vector<CollectiveSample> samples_of(const std::vector<Row>& rows, const Sweep& sweep) {
  std::vector<CollectiveSample> samples;
  for (const Row& row : rows) {
    const double bytes = row.sample.bytes.value;
    if (row.id.rfind(sweep.prefix, 0) != 0 || bytes < sweep.least || bytes >= sweep.below) continue;
    samples.push_back(row.sample);
  }
  return samples;
}

/// Prints a line; gives the mean error.
double print_errors(const FabricCost& fabric, const std::vector<Row>& rows, const Sweep& sweep,
                    const char* seen) {
  const auto samples = samples_of(rows, sweep);
  const CollectiveErrors e = orrery::costmodel::errors_of(fabric, samples);
  fmt::print("  {:<9} {:<27} {:<40} {:>4} {:>6.1f}% {:>+6.1f}% {:>+6.1f}%\n", seen, sweep.prefix,
             sweep.what, samples.size(), 100 * e.mean, 100 * e.bias, 100 * e.largest);
  return e.mean;
}

void print_toml(const FabricCost& f) {
  const auto& c = f.collectives;
  fmt::print("  device_link = {{ bandwidth = \"{:.1f} GB/s\", latency = \"{:.2f} us\" }}\n",
             f.port.value / 1e9, f.inside.value * 1e6);
  fmt::print("  base = \"{:.1f} us\"\n  ring_ends = {:.2f}\n  tree_wire = {:.3f}\n",
             c.base.value * 1e6, c.ring_ends, *c.tree_wire);
  fmt::print("  ll128 = {{ step = {:.3f}, network_step = {:.3f}, wire = {:.3f} }}\n", c.ll128->step,
             c.ll128->network_step, c.ll128->wire);
  fmt::print("  ll = {{ step = {:.3f}, network_step = {:.3f}, wire = {:.3f} }}\n", c.ll->step,
             c.ll->network_step, c.ll->wire);
  if (c.in_switch) {
    fmt::print("  in_switch = {{ latency = \"{:.1f} us\", wire = {:.3f} }}\n",
               c.in_switch->latency.value * 1e6, c.in_switch->wire);
  }
}

/// Fits, prints; gives the largest mean error of a sweep left out.
double fit(Generation& generation, const std::vector<Row>& rows) {
  for (const Stage& stage : generation.stages) {
    std::vector<CollectiveSample> seen;
    for (const Sweep& sweep : stage.sweeps) {
      for (const auto& s : samples_of(rows, sweep)) seen.push_back(s);
    }
    generation.fabric = orrery::costmodel::fit_collectives(generation.fabric, stage.free, seen);
  }
  fmt::print("{}\n", generation.name);
  print_toml(generation.fabric);
  double worst = 0;
  for (const Stage& stage : generation.stages) {
    for (const Sweep& sweep : stage.sweeps) {
      print_errors(generation.fabric, rows, sweep, "fitted");
    }
  }
  for (const Sweep& sweep : generation.left_out) {
    worst = std::max(worst, print_errors(generation.fabric, rows, sweep, "left out"));
  }
  return worst;
}

}  // namespace

int main() {
  const std::string path = std::string(ORRERY_SOURCE_DIR) + "/data/validation/nccl_busbw.csv";
  const std::vector<Row> rows = read_rows(path);
  if (rows.empty()) {
    fmt::print(stderr, "{}: no rows\n", path);
    return 1;
  }
  fmt::print("  {:<9} {:<27} {:<40} {:>4} {:>7} {:>7} {:>7}\n", "", "rows", "from 1 MiB on", "",
             "error", "bias", "worst");
  Generation a100 = ampere();
  double worst = fit(a100, rows);
  Generation v100 = volta(a100.fabric);
  worst = std::max(worst, fit(v100, rows));
  Generation h200 = hopper();
  worst = std::max(worst, fit(h200, rows));
  Generation b200 = blackwell();
  worst = std::max(worst, fit(b200, rows));
  // Fitted on B200, judged on H200 with the same network cards.
  Generation cards = between_nodes(b200.fabric);
  fit(cards, rows);
  FabricCost h200_cards = between_nodes(h200.fabric).fabric;
  h200_cards.card = cards.fabric.card;
  h200_cards.across = cards.fabric.across;
  fmt::print("  network_card: {:.3f} of 50 GB/s, latency \"{:.1f} us\"\n",
             cards.fabric.card.value / 50e9, cards.fabric.across.value * 1e6);
  for (const Sweep& sweep : {Sweep{"h200x32_ar4G_ring", "32 on 4 nodes, H200"},
                             Sweep{"h200x32_ar16G", "32 on 4 nodes, H200"}}) {
    worst = std::max(worst, print_errors(h200_cards, rows, sweep, "left out"));
  }
  fmt::print("Shown, not counted, beside the A100 fit: the GPU is not published\n");
  for (const int n : {2, 4, 8}) {
    print_errors(a100.fabric, rows,
                 {fmt::format("galvatron_allreduce_size_{}_", n), fmt::format("{} of a node", n)},
                 "shown");
  }
  fmt::print("nccl-fit-left-out-error {:.4f}\n", worst);
  return 0;
}

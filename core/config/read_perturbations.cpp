#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/read.h"
#include "core/config/table_reader.h"
#include "core/network/topology.h"

namespace orrery::core {
namespace {

constexpr int kMaxSteps = 1'000'000;

class PerturbationsReader {
 public:
  PerturbationsReader(TableReader reader, const Cluster& cluster)
      : reader_(reader), cluster_(cluster) {}

  Perturbations read() {
    for (TableReader& one : tables("straggler")) add_straggler(one);
    for (TableReader& one : tables("slow_link")) {
      perturbations_.slow_links.push_back(
          {link(one), one.number("bandwidth", {1e-6, 1e6}), steps(one)});
      one.finish();
    }
    for (TableReader& one : tables("failed_link")) {
      perturbations_.failed_links.push_back({link(one), steps(one)});
      one.finish();
    }
    for (TableReader& one : tables("background")) {
      const Rank from = rank(one, "from");
      const Rank to = rank(one, "to");
      if (from == to) one.fail("to", "is the rank that the flow leaves");
      perturbations_.background.push_back({from, to, one.quantity<BytesPerSecond>("rate")});
      one.finish();
    }
    if (reader_.has("jitter")) {
      TableReader jitter = reader_.table("jitter");
      perturbations_.jitter = Jitter{jitter.number("deviation", {0, 10}), seed(jitter)};
      jitter.finish();
    }
    reader_.finish();
    if (perturbations_.empty()) {
      reader_.fail("straggler", "is missing, as are slow_link, failed_link, background and jitter");
    }
    return std::move(perturbations_);
  }

 private:
  std::vector<TableReader> tables(std::string_view key) {
    return reader_.has(key) ? reader_.tables(key) : std::vector<TableReader>{};
  }

  static std::uint64_t seed(TableReader& one) {
    return one.has("seed") ? static_cast<std::uint64_t>(one.integer("seed", 0, INT64_MAX)) : 0;
  }

  Rank rank(TableReader& one, std::string_view key) const {
    return Rank(one.count(key, 0, cluster_.devices() - 1));
  }

  /// A rank, or all of a node.
  void add_straggler(TableReader& one) {
    const double slowdown = one.number("slowdown", {1e-3, 1e6});
    const StepRange range = steps(one);
    if (one.has("node")) {
      const int node = one.count("node", 0, cluster_.nodes() - 1);
      for (int r = 0; r < cluster_.devices(); ++r) {
        if (cluster_.node_of(r) != node) continue;
        perturbations_.stragglers.push_back({Rank(r), slowdown, range});
      }
    } else {
      perturbations_.stragglers.push_back({rank(one, "rank"), slowdown, range});
    }
    one.finish();
  }

  LinkId link(TableReader& one) {
    const std::string name = one.text("link");
    if (!topology_) topology_.emplace(cluster_);
    if (const auto found = topology_->find_link(name)) return *found;
    one.fail("link", fmt::format("\"{}\" is no link of cluster {}; links are called {}", name,
                                 cluster_.name, some_links()));
  }

  /// One of each kind.
  std::string some_links() const {
    std::string names;
    std::vector<LinkKind> seen;
    for (std::size_t l = 0; l < topology_->links().size(); ++l) {
      const LinkKind kind = topology_->links()[l].kind;
      if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
      seen.push_back(kind);
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", topology_->name(LinkId(l)));
    }
    return names;
  }

  static StepRange steps(TableReader& one) {
    if (!one.has("steps")) return {};
    const std::vector<int> range = one.counts("steps", 0, kMaxSteps);
    if (range.size() != 2 || range[0] > range[1]) {
      one.fail("steps", "must be [first, last], counted from 0");
    }
    return {range[0], range[1]};
  }

  TableReader reader_;
  const Cluster& cluster_;
  std::optional<Topology> topology_;
  Perturbations perturbations_;
};

}  // namespace

Perturbations read_perturbations(const std::filesystem::path& path, const Cluster& cluster) {
  const ConfigValue value = parse_toml_file(path);
  return PerturbationsReader(TableReader(path.string(), value, Sources::Optional), cluster).read();
}

}  // namespace orrery::core

// The 4D plan of the 230-billion-parameter ERNIE against the two 3D ones, over what was not
// published: bench/four-dimensions.sh.
//
// Published are 64 nodes of 8 V100, 100 layers, 230 billion parameters, 8,698 tokens/s and that the 4D
// plan was at least 23.7% faster than either 3D one. Sequence, batch, width and heads, precision and
// network are not. The width follows from layers and parameters; the others are varied here.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "core/config/read.h"
#include "study/compare_plans.h"
#include "study/plan_study.h"

namespace {

using namespace orrery;
namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(ORRERY_SOURCE_DIR) / "configs";
constexpr std::array kPlans = {"ernie-230b-4d", "ernie-230b-3d-pp64", "ernie-230b-3d-mp8"};

// Around what configs/jobs/ernie-230b.toml and configs/clusters/v100-64x8.toml assume.
constexpr std::array kSequences = {128, 512, 1024};
constexpr std::array kBatches = {256, 512, 1024, 2048};
/// One card of 25 Gbit/s up to four of 100, which `between` of the cluster's file spans.
constexpr std::array kNetworks = {25.0, 100.0, 400.0};

struct Assumed {
  core::Model model;
  core::Cluster cluster;
  core::Job job;
  double gigabits = 0;
};

Assumed assume(int sequence, int batch, double gigabits) {
  Assumed a{core::read_model(kConfigs / "models/ernie-230b"),
            core::read_cluster(kConfigs / "clusters/v100-64x8.toml"),
            core::read_job(kConfigs / "jobs/ernie-230b.toml"), gigabits};
  a.job.sequence = sequence;
  a.job.global_batch = batch;
  a.model.transformer->max_positions = std::max(a.model.transformer->max_positions, sequence);
  a.cluster.groups.front().type.network_card.bandwidth = core::BytesPerSecond(gigabits * 1e9 / 8);
  return a;
}

/// Of each plan, simulated; none where a device's memory does not hold it.
struct Speeds {
  std::array<std::optional<double>, kPlans.size()> tokens_per_second;
  double best = 0;
  std::string best_plan;
};

Speeds speeds_of(const Assumed& a) {
  Speeds speeds;
  for (std::size_t i = 0; i < kPlans.size(); ++i) {
    const fs::path file = kConfigs / "plans" / (std::string(kPlans[i]) + ".toml");
    const core::Plan plan = study::read_plan_for(file, a.model, a.cluster, a.job);
    study::ComparedPlan compared = study::estimated(kPlans[i], plan, a.model, a.cluster, a.job);
    if (compared.does_not_fit) continue;
    study::simulate_and_count(compared, a.model, a.cluster, a.job);
    speeds.tokens_per_second[i] = a.job.global_batch * a.job.sequence / compared.simulated->value;
  }
  study::PlanStudyOptions options;
  options.keep = 20;
  const auto best = study::study_plans(a.model, a.cluster, a.job, options);
  if (best.ranked.empty()) return speeds;
  speeds.best = a.job.global_batch * a.job.sequence / study::step_of(best.ranked.front()).value;
  speeds.best_plan = core::describe(best.ranked.front().plan);
  return speeds;
}

std::string text(const std::optional<double>& speed) {
  return speed ? fmt::format("{:.0f}", *speed) : "no room";
}

}  // namespace

int main() {
  fmt::print("tokens/s, simulated\n{:>8} {:>6} {:>9} {:>8} {:>8} {:>8} {:>9}  {}\n", "sequence",
             "batch", "Gbit/s", "4D", "3D pp64", "3D mp8", "4D gains", "best of all");
  int cases = 0, wins = 0;
  for (const int sequence : kSequences) {
    for (const int batch : kBatches) {
      for (const double gigabits : kNetworks) {
        const Speeds s = speeds_of(assume(sequence, batch, gigabits));
        const auto& [four, pp64, mp8] = s.tokens_per_second;
        const double other = std::max(pp64.value_or(0), mp8.value_or(0));
        const double gain = four && other > 0 ? *four / other - 1 : 0;
        fmt::print("{:>8} {:>6} {:>9} {:>8} {:>8} {:>8} {:>+8.1f}%  {:.0f} {}\n", sequence, batch,
                   gigabits, text(four), text(pp64), text(mp8), 100 * gain, s.best, s.best_plan);
        std::fflush(stdout);
        ++cases;
        if (gain > 0) ++wins;
      }
    }
  }
  fmt::print("\nfour-dimensions {:.2f}\n", static_cast<double>(wins) / cases);
}

#include "tests/engine/parity_fixture.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/cluster.h"
#include "core/config/read.h"
#include "core/lowering/lowering.h"

namespace orrery::engine {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/fixtures/parity" / name;
}

core::Model tiny_gpt2() { return core::read_model(fixture("hf/gpt2/config.json")); }
core::Model tiny_llama() { return core::read_model(fixture("hf/llama/config.json")); }
core::Model tiny_mixtral() { return core::read_model(fixture("hf/mixtral/config.json")); }

core::Job tiny_job() {
  core::Job job;
  job.sequence = 32;
  job.global_batch = 8;
  job.steps = 20;
  job.optimizer.kind = core::OptimizerKind::AdamW;
  job.optimizer.learning_rate = 1e-3;
  job.optimizer.weight_decay = 0.01;
  job.optimizer.decay_all = true;
  return job;
}

core::Plan dense_plan(const core::DensePlan& dense) {
  core::Plan plan;
  plan.name = "test";
  plan.dense = dense;
  return plan;
}

core::Model tiny_deepfm() {
  return core::read_model(std::filesystem::path(ORRERY_SOURCE_DIR) /
                          "configs/models/deepfm-tiny.toml");
}

core::Model tiny_wide_deep() {
  core::Model model = tiny_deepfm();
  model.click_through->interaction = core::Interaction::None;
  return model;
}

core::Job tiny_click_through_job() {
  core::Job job =
      core::read_job(std::filesystem::path(ORRERY_SOURCE_DIR) / "configs/jobs/deepfm-tiny.toml");
  job.data = core::Data{core::DataFormat::CriteoTsv, fixture("criteo_synth.tsv").string()};
  job.initial_weights = fixture("ctr_init.safetensors").string();
  return job;
}

core::Plan sparse_plan(const core::SparsePlan& sparse) {
  core::Plan plan;
  plan.name = "test";
  plan.sparse = sparse;
  return plan;
}

std::vector<double> losses_of(const core::Trace& trace) {
  std::vector<double> losses;
  for (const core::StepInfo& step : trace.steps) losses.push_back(step.loss.value());
  return losses;
}

std::vector<double> expected_numbers(const std::string& file, const std::string& run,
                                     const std::string& what) {
  std::ifstream in(fixture(file));
  return nlohmann::json::parse(in).at(run).at(what).get<std::vector<double>>();
}

core::Program lowered(const core::Plan& plan, const core::Model& model, const core::Job& job) {
  core::Cluster cluster;
  cluster.name = "test";
  core::NodeGroup group;
  group.count = 1;
  group.type.devices = plan.devices();
  cluster.groups.push_back(group);
  return core::lower(plan, model, cluster, job);
}

}  // namespace orrery::engine

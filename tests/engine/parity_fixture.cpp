#include "parity_fixture.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/cluster.h"
#include "core/lowering.h"

namespace orrery::engine {

std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/fixtures/parity" / name;
}

core::Model tiny_gpt2() {
  core::Transformer t;
  t.family = core::ModelFamily::Gpt2;
  t.layers = 2;
  t.hidden = 64;
  t.heads = t.kv_heads = 4;
  t.head_dim = 16;
  t.ffn = 256;
  t.vocab = 256;
  t.max_positions = 32;
  t.qkv_bias = t.linear_bias = true;
  t.tied_embeddings = true;
  return {"tiny gpt2", t, std::nullopt};
}

core::Model tiny_llama() {
  core::Transformer t;
  t.family = core::ModelFamily::Llama;
  t.layers = 2;
  t.hidden = 64;
  t.heads = 4;
  t.kv_heads = 2;
  t.head_dim = 16;
  t.ffn = 176;
  t.vocab = 256;
  t.max_positions = 32;
  t.normalization = core::Normalization::RmsNorm;
  t.activation = core::ActivationKind::SwiGlu;
  t.position = core::PositionKind::Rotary;
  return {"tiny llama", t, std::nullopt};
}

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

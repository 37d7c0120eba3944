#include "study/operator_probe.h"

#include <algorithm>

namespace orrery::study {
namespace {

/// Width, tokens of a sequence and sequences of a microbatch.
struct Size {
  int hidden, sequence, microbatch;
};

// From one small sequence to where the largest product takes some 10 ms on a current core.
constexpr Size kSizes[] = {{32, 64, 1},   {64, 64, 4},   {96, 64, 1},   {128, 64, 2},
                           {128, 128, 4}, {192, 64, 1},  {256, 128, 1}, {256, 128, 4},
                           {256, 256, 2}, {384, 128, 2}, {512, 64, 1},  {512, 256, 2}};

constexpr int kHeadDim = 32;
constexpr int kBytes = 256;  // The vocabulary of byte-level text.

core::Transformer gpt2(const Size& size) {
  core::Transformer t;
  t.family = core::ModelFamily::Gpt2;
  t.layers = 2;
  t.hidden = size.hidden;
  t.head_dim = kHeadDim;
  t.heads = size.hidden / kHeadDim;
  t.kv_heads = t.heads;
  t.ffn = 4 * size.hidden;
  t.vocab = kBytes;
  t.max_positions = size.sequence;
  t.qkv_bias = true;
  t.linear_bias = true;
  t.tied_embeddings = true;
  return t;
}

core::Transformer llama(const Size& size) {
  core::Transformer t = gpt2(size);
  t.family = core::ModelFamily::Llama;
  t.kv_heads = std::max(1, t.heads / 2);
  t.ffn = 3 * size.hidden;
  t.normalization = core::Normalization::RmsNorm;
  t.activation = core::ActivationKind::SwiGlu;
  t.position = core::PositionKind::Rotary;
  t.qkv_bias = false;
  t.linear_bias = false;
  t.tied_embeddings = false;
  return t;
}

OperatorProbe transformer_probe(const core::Transformer& transformer, const Size& size, int ranks,
                                const std::filesystem::path& text) {
  OperatorProbe probe;
  probe.model.name = "probe";
  probe.model.transformer = transformer;
  probe.job.sequence = size.sequence;
  // Two microbatches, so that no operator is seen only once in a step.
  probe.job.global_batch = 2 * size.microbatch * ranks;
  probe.job.optimizer.learning_rate = 1e-4;
  probe.job.clip_norm = 1.0;
  probe.job.steps = kProbeSteps;
  probe.job.data = core::Data{core::DataFormat::Text, text.string()};
  core::DensePlan dense;
  dense.data = ranks;
  dense.layers_per_stage = {transformer.layers};
  dense.microbatch = size.microbatch;
  probe.plan.name = "probe";
  probe.plan.dense = dense;
  return probe;
}

// The layout of a Criteo line: 13 numbers and 26 categories.
constexpr int kNumbers = 13;
constexpr int kCategories = 26;

}  // namespace

std::vector<OperatorProbe> transformer_probes(int ranks, const std::filesystem::path& text) {
  std::vector<OperatorProbe> probes;
  for (const Size& size : kSizes) {
    probes.push_back(transformer_probe(gpt2(size), size, ranks, text));
    probes.push_back(transformer_probe(llama(size), size, ranks, text));
  }
  return probes;
}

std::vector<OperatorProbe> click_through_probes(int ranks, const std::filesystem::path& samples) {
  std::vector<OperatorProbe> probes;
  for (const int dim : {4, 16}) {
    for (const int batch : {kClickThroughBatch / 4, kClickThroughBatch}) {
      OperatorProbe probe;
      probe.model.name = "probe";
      core::ClickThrough model;
      model.dense_features = kNumbers;
      model.mlp = {64, 32};
      for (int f = 0; f < kCategories; ++f) {
        core::EmbeddingTable table;
        table.name = "C" + std::to_string(f + 1);
        table.rows = 1000;
        table.dim = dim;
        model.tables.push_back(table);
      }
      probe.model.click_through = model;
      probe.job.global_batch = batch * ranks;
      probe.job.optimizer.kind = core::OptimizerKind::Adam;
      probe.job.optimizer.learning_rate = 1e-3;
      core::Optimizer sparse;
      sparse.kind = core::OptimizerKind::AdaGrad;
      sparse.learning_rate = 0.05;
      sparse.initial_accumulator = 0.1;
      probe.job.sparse_optimizer = sparse;
      probe.job.steps = kProbeSteps;
      probe.job.data = core::Data{core::DataFormat::CriteoTsv, samples.string()};
      core::SparsePlan plan;
      plan.workers = ranks;
      plan.servers = ranks;
      plan.colocated = true;
      probe.plan.name = "probe";
      probe.plan.sparse = plan;
      probes.push_back(probe);
    }
  }
  return probes;
}

core::Cluster one_node(const core::Device& device, int ranks, int cores) {
  core::NodeType type;
  type.name = "host";
  type.device = device;
  type.devices = ranks;
  type.cores = cores;
  type.fabric = core::NodeFabric::Memory;
  core::Cluster cluster;
  cluster.name = "host";
  cluster.groups = {{type, 1}};
  cluster.collectives.library = core::CollectiveLibrary::AllPairs;  // The engine's.
  return cluster;
}

}  // namespace orrery::study

#include <fmt/format.h>

#include <limits>

#include "core/config/read.h"
#include "core/config/table_reader.h"

namespace orrery::core {

namespace {

constexpr int kMaxTokens = 1'000'000'000;
constexpr double kBelowOne = 1.0 - 1e-12;

Optimizer read_optimizer(TableReader reader) {
  Optimizer o;
  o.kind = reader.choice<OptimizerKind>("kind", {{"adamw", OptimizerKind::AdamW},
                                                 {"adam", OptimizerKind::Adam},
                                                 {"sgd", OptimizerKind::Sgd},
                                                 {"adagrad", OptimizerKind::AdaGrad}});
  o.learning_rate = reader.number("learning_rate", {0, 1e6});
  if (reader.has("beta1")) o.beta1 = reader.number("beta1", {0, kBelowOne});
  if (reader.has("beta2")) o.beta2 = reader.number("beta2", {0, kBelowOne});
  if (reader.has("epsilon")) o.epsilon = reader.number("epsilon", {0, 1});
  if (reader.has("weight_decay")) o.weight_decay = reader.number("weight_decay", {0, 1e3});
  if (reader.has("decay_all")) o.decay_all = reader.boolean("decay_all");
  if (reader.has("initial_accumulator")) {
    o.initial_accumulator = reader.number("initial_accumulator", {0, 1e6});
  }
  reader.finish();
  return o;
}

LearningRateSchedule read_schedule(TableReader reader, const Job& job) {
  LearningRateSchedule schedule;
  schedule.warmup_steps = reader.count("warmup_steps", 0, std::max(job.steps, 1));
  schedule.final_learning_rate =
      reader.number("final_learning_rate", {0, job.optimizer.learning_rate});
  reader.finish();
  return schedule;
}

Data read_data(TableReader reader, const std::filesystem::path& file) {
  Data data;
  data.format = reader.choice<DataFormat>("format", {{"text", DataFormat::Text},
                                                     {"llmc-bin", DataFormat::LlmcBin},
                                                     {"criteo-tsv", DataFormat::CriteoTsv},
                                                     {"safetensors", DataFormat::Safetensors}});
  data.path = resolve_beside(file, reader.text("path")).string();
  reader.finish();
  return data;
}

/// Of the gradients: float32, or the job's own where that has half its bytes.
DType read_gradients(TableReader& reader, DType precision) {
  std::vector<std::pair<std::string_view, DType>> allowed = {{"float32", DType::Float32}};
  if (precision == DType::Float16 || precision == DType::BFloat16) {
    allowed.emplace_back(dtype_name(precision), precision);
  }
  return reader.choice<DType>("gradients", allowed);
}

}  // namespace

Job read_job(const std::filesystem::path& path) {
  const ConfigValue value = parse_toml_file(path);
  TableReader reader(path.string(), value, Sources::Optional);
  Job job;
  // A click-through job has no sequence.
  if (reader.has("sequence")) job.sequence = reader.count("sequence", 1, kMaxTokens);
  job.global_batch = reader.count("global_batch", 1, kMaxTokens);
  job.precision = reader.choice<DType>("precision", {{"float32", DType::Float32},
                                                     {"tf32", DType::Tf32},
                                                     {"float16", DType::Float16},
                                                     {"bfloat16", DType::BFloat16},
                                                     {"float8", DType::Float8}});
  if (reader.has("gradients")) job.gradient_precision = read_gradients(reader, job.precision);
  job.steps = reader.count("steps", 1, kMaxTokens);
  if (reader.has("seed")) {
    job.seed = static_cast<std::uint64_t>(
        reader.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  }
  job.optimizer = read_optimizer(reader.table("optimizer"));
  if (reader.has("sparse_optimizer")) {
    job.sparse_optimizer = read_optimizer(reader.table("sparse_optimizer"));
  }
  if (reader.has("schedule")) job.schedule = read_schedule(reader.table("schedule"), job);
  if (reader.has("clip_norm")) job.clip_norm = reader.number("clip_norm", {1e-30, 1e30});
  if (reader.has("data")) job.data = read_data(reader.table("data"), path);
  if (reader.has("initial_weights")) {
    job.initial_weights = resolve_beside(path, reader.text("initial_weights")).string();
  }
  reader.finish();
  return job;
}

}  // namespace orrery::core

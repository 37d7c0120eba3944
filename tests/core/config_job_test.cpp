// Jobs: reading, refusing, writing and reading back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/config/read.h"
#include "core/config/write.h"
#include "core/error.h"
#include "tests/core/temporary_folder.h"

namespace orrery::core {
namespace {

using ::testing::HasSubstr;

const char* const kJob = R"(sequence = 128
global_batch = 16
precision = "float32"
steps = 20
seed = 7
clip_norm = 1.0
initial_weights = "init.safetensors"

[optimizer]
kind = "adamw"
learning_rate = 1e-3
beta2 = 0.95
weight_decay = 0.1

[sparse_optimizer]
kind = "adagrad"
learning_rate = 0.05
initial_accumulator = 0.1

[schedule]
warmup_steps = 4
final_learning_rate = 1e-4

[data]
format = "text"
path = "../corpus.txt"
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& content) {
  const TemporaryFolder folder;
  const auto file = folder.write("job.toml", content);
  try {
    read_job(file);
  } catch (const ConfigError& error) {
    return std::string(error.what()).substr(file.string().size());
  }
  return "no error";
}

void expect_equal(const Optimizer& a, const Optimizer& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.learning_rate, b.learning_rate);
  EXPECT_EQ(a.beta1, b.beta1);
  EXPECT_EQ(a.beta2, b.beta2);
  EXPECT_EQ(a.epsilon, b.epsilon);
  EXPECT_EQ(a.weight_decay, b.weight_decay);
  EXPECT_EQ(a.decay_all, b.decay_all);
  EXPECT_EQ(a.initial_accumulator, b.initial_accumulator);
}

TEST(JobFile, IsRead) {
  const TemporaryFolder folder;
  const Job job = read_job(folder.write("jobs/job.toml", kJob));
  EXPECT_EQ(job.sequence, 128);
  EXPECT_EQ(job.global_batch, 16);
  EXPECT_EQ(job.precision, DType::Float32);
  EXPECT_EQ(job.seed, 7U);
  EXPECT_EQ(job.clip_norm, 1.0);
  EXPECT_EQ(job.optimizer.kind, OptimizerKind::AdamW);
  EXPECT_EQ(job.optimizer.beta1, 0.9);
  EXPECT_EQ(job.optimizer.beta2, 0.95);
  EXPECT_FALSE(job.optimizer.decay_all);
  EXPECT_EQ(job.sparse_optimizer->kind, OptimizerKind::AdaGrad);
  EXPECT_EQ(job.schedule->warmup_steps, 4);
  EXPECT_EQ(job.data->format, DataFormat::Text);
}

TEST(JobFile, FindsItsDataBesideItself) {
  const TemporaryFolder folder;
  const Job job = read_job(folder.write("jobs/job.toml", kJob));
  EXPECT_EQ(job.data->path, (folder.path() / "corpus.txt").string());
  EXPECT_EQ(job.initial_weights, (folder.path() / "jobs/init.safetensors").string());
}

TEST(JobFile, RoundTrips) {
  const TemporaryFolder folder;
  Job job = read_job(folder.write("job.toml", kJob));
  job.optimizer.learning_rate = 1.0 / 3.0;
  job.optimizer.decay_all = true;
  job.precision = job.gradient_precision = DType::BFloat16;
  write_job(folder.path() / "again.toml", job);
  const Job again = read_job(folder.path() / "again.toml");
  EXPECT_EQ(again.sequence, job.sequence);
  EXPECT_EQ(again.global_batch, job.global_batch);
  EXPECT_EQ(again.precision, job.precision);
  EXPECT_EQ(again.gradient_precision, job.gradient_precision);
  EXPECT_EQ(again.steps, job.steps);
  EXPECT_EQ(again.seed, job.seed);
  EXPECT_EQ(again.clip_norm, job.clip_norm);
  EXPECT_EQ(again.initial_weights, job.initial_weights);
  expect_equal(again.optimizer, job.optimizer);
  expect_equal(*again.sparse_optimizer, *job.sparse_optimizer);
  EXPECT_EQ(again.schedule->warmup_steps, job.schedule->warmup_steps);
  EXPECT_EQ(again.schedule->final_learning_rate, job.schedule->final_learning_rate);
  EXPECT_EQ(again.data->format, job.data->format);
  EXPECT_EQ(again.data->path, job.data->path);
}

TEST(JobFile, WithoutOptionalPartsRoundTrips) {
  const TemporaryFolder folder;
  Job job;
  job.global_batch = 64;
  job.steps = 1;
  job.optimizer.learning_rate = 1e-3;
  write_job(folder.path() / "job.toml", job);
  const Job again = read_job(folder.path() / "job.toml");
  EXPECT_EQ(again.sequence, 0);
  EXPECT_FALSE(again.sparse_optimizer || again.schedule || again.clip_norm || again.data ||
               again.initial_weights);
}

TEST(JobFileError, NamesPlaceFindingAndRule) {
  EXPECT_THAT(error_of(replaced(kJob, "global_batch = 16", "global_batch = 0")),
              HasSubstr(":2:16: global_batch: is 0; allowed are 1 to"));
  EXPECT_THAT(error_of(replaced(kJob, "global_batch = 16\n", "")),
              HasSubstr("global_batch: is missing"));
  EXPECT_THAT(error_of(replaced(kJob, "steps = 20", "gradients = \"float16\"\nsteps = 20")),
              HasSubstr(":4:13: gradients: \"float16\" is unknown; allowed are \"float32\""));
  EXPECT_THAT(error_of(replaced(kJob, "beta2 = 0.95", "beta2 = 1.0")),
              HasSubstr("optimizer.beta2: is 1"));
  EXPECT_THAT(error_of(replaced(kJob, "= 1e-3", "= -1e-3")),
              HasSubstr("optimizer.learning_rate: is -0.001; allowed are 0 to 1000000"));
  EXPECT_THAT(error_of(replaced(kJob, "= 1e-3", "= inf")), HasSubstr("learning_rate: is inf"));
  EXPECT_THAT(error_of(replaced(kJob, "warmup_steps = 4", "warmup_steps = 21")),
              HasSubstr("schedule.warmup_steps: is 21; allowed are 0 to 20"));
  EXPECT_THAT(error_of(replaced(kJob, "1e-4", "1e-2")),
              HasSubstr("schedule.final_learning_rate: is 0.01"));
  EXPECT_THAT(error_of(replaced(kJob, "clip_norm = 1.0", "clip_norm = 0")),
              HasSubstr("clip_norm: is 0"));
  EXPECT_THAT(error_of(replaced(kJob, "float32", "fp32")),
              HasSubstr("precision: \"fp32\" is unknown; allowed are \"float32\""));
  EXPECT_THAT(error_of(replaced(kJob, "weight_decay", "wieght_decay")),
              HasSubstr("optimizer.wieght_decay: unknown key; did you mean \"weight_decay\"?"));
  EXPECT_THAT(error_of(replaced(kJob, "steps = 20", "steps = 20\nsteps = 21")), HasSubstr(":5:"));
  EXPECT_THAT(error_of(replaced(kJob, "\"adamw\"", "\"\"")), HasSubstr("optimizer.kind: is empty"));
}

}  // namespace
}  // namespace orrery::core

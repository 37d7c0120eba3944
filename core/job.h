#pragma once
// What is asked for: batch, sequence, optimizer, data, length of the run.

#include <cstdint>
#include <optional>
#include <string>

#include "core/model.h"

namespace orrery::core {

enum class OptimizerKind { AdamW, Adam, Sgd, AdaGrad };

struct Optimizer {
  OptimizerKind kind = OptimizerKind::AdamW;
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decay_all = false;  ///< Decay every tensor; otherwise those with two dimensions or more.
  double initial_accumulator = 0.0;  ///< AdaGrad.
};

/// Buffers of optimizer state beside the parameters: 2 moments, 1 accumulator or none.
int optimizer_state_count(OptimizerKind kind);

/// lr(s) = peak·(s+1)/warmup for s < warmup, then
///   final + ½(peak − final)(1 + cos π(s − warmup)/(steps − warmup)).
/// Without a schedule: lr constant.
struct LearningRateSchedule {
  int warmup_steps = 0;
  double final_learning_rate = 0.0;
};

enum class DataFormat { Text, LlmcBin, CriteoTsv, Safetensors };

struct Data {
  DataFormat format = DataFormat::Text;
  std::string path;
};

struct Job {
  int sequence = 0;      ///< Tokens per sequence (transformers).
  int global_batch = 0;  ///< Sequences (or click-through samples) per optimizer step.
  DType precision = DType::Float32;
  /// Of gradients while they are accumulated and reduced: float32 or that of the job.
  DType gradient_precision = DType::Float32;
  Optimizer optimizer;                           ///< Of the dense parameters.
  std::optional<Optimizer> sparse_optimizer;     ///< Of embedding tables.
  std::optional<LearningRateSchedule> schedule;  ///< Of the dense parameters.
  std::optional<double> clip_norm;               ///< Largest global gradient norm.
  int steps = 0;
  std::uint64_t seed = 0;
  std::optional<Data> data;
  /// A safetensors file; random from `seed` otherwise.
  std::optional<std::string> initial_weights;
};

/// Learning rate of step s (from 0).
double learning_rate(const Job&, int step);

}  // namespace orrery::core

#pragma once
// A training step that somebody measured and published, in the canonical columns of
// data/validation/steps.csv (docs/files.md). What was not published is absent.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/model.h"
#include "core/plan.h"
#include "core/units.h"

namespace orrery::study {

struct MeasuredStep {
  std::string where;  ///< "file:line".
  std::string id, source, model, architecture, device, framework;
  // The model.
  std::optional<int> layers, hidden, heads, kv_heads, ffn, vocab, sequence;
  bool gated_mlp = false;
  bool tied_embeddings = false;
  int experts = 1;
  int experts_per_token = 1;
  // The machine.
  std::optional<int> devices, devices_per_node;
  std::optional<core::BytesPerSecond> node_network;  ///< All of a node's cards.
  // The plan.
  std::optional<int> data, tensor, pipeline, context, expert, sharding_stage, virtual_stages;
  std::optional<core::PipelineSchedule> schedule;
  std::optional<int> microbatch, global_batch;
  std::optional<core::Recompute> recompute;
  bool sequence_parallel = false;
  std::optional<core::AttentionKind> attention;
  std::optional<core::DType> precision;
  // What was measured.
  std::optional<core::Seconds> step;
  std::optional<core::Bytes> memory;  ///< Peak of one device.
  std::vector<std::string> assumed;   ///< Columns that were not published but are generally known.
  bool verified = true;               ///< Read in a source, not recalled.
};

/// Files of the format share their columns, in any order; `id`, `source`, `device` and `devices`
/// must be there, other columns may be missing and count as empty.
/// @throws ConfigError "file:line: column: found, allowed".
std::vector<MeasuredStep> read_measured_steps(const std::filesystem::path&);

/// One line each, "file: found, known", for columns that no row is read by: other notes, or
/// a name mistyped.
std::vector<std::string> unknown_columns(const std::filesystem::path&);

/// Without the rows whose source and id an earlier one has; `warnings` is told of each.
std::vector<MeasuredStep> without_repeated(std::vector<MeasuredStep>,
                                           std::vector<std::string>& warnings);

}  // namespace orrery::study

#pragma once
// Readers of every file a user brings. Each returns a complete, checked value or throws.
// Formats and examples: docs/files.md.

#include <filesystem>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/perturbations.h"
#include "core/plan.h"

namespace orrery::core {

/// A Hugging Face config.json, unchanged (GPT-2, Llama, Mistral, Qwen2, BERT, ERNIE, Mixtral), the
/// folder that holds one, or a click-through model in TOML.
/// @throws ConfigError "file:line:column: key: what was found, what is allowed", or "file: cannot
/// read: why": a file that is named but cannot be read is bad input, here and below.
Model read_model(const std::filesystem::path&);

/// A cluster in TOML. Its `device` is a device file (relative to this file) or an inline table.
Cluster read_cluster(const std::filesystem::path&);

/// A device in TOML.
Device read_device(const std::filesystem::path&);

/// A job in TOML. `data` and `initial_weights` are resolved against the job file's folder.
Job read_job(const std::filesystem::path&);

/// What disturbs a simulation of a plan on this cluster, in TOML.
Perturbations read_perturbations(const std::filesystem::path&, const Cluster&);

/// A plan in TOML. Paths stay as written; resolve_beside() finds them.
Plan read_plan(const std::filesystem::path&);

/// `path` itself when absolute, else relative to the folder of `file`.
std::filesystem::path resolve_beside(const std::filesystem::path& file,
                                     const std::filesystem::path& path);

}  // namespace orrery::core

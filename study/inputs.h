#pragma once
// A plan together with everything that it names.

#include <filesystem>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"

namespace orrery::study {

struct Inputs {
  core::Model model;
  core::Cluster cluster;
  core::Job job;
  core::Plan plan;
};

/// Reads a plan file and the model, cluster and job that it names.
/// @throws ConfigError for each fault of the four files, and where the plan does not fit the other
/// three (a plan for another cluster, say), naming the plan's file.
Inputs read_inputs(const std::filesystem::path& plan_file);

/// The files that read_inputs() reads for a plan of `plan_file`, that file among them.
std::vector<std::filesystem::path> input_files(const std::filesystem::path& plan_file,
                                               const core::Plan&);

}  // namespace orrery::study

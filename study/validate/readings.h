#pragma once
// From a published row to what the cost model takes. What a row leaves open is read in every way it
// could mean, so that a prediction becomes an interval.

#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/job.h"
#include "core/model.h"
#include "core/plan.h"
#include "costmodel/dense_estimator.h"
#include "study/validate/framework.h"
#include "study/validate/machines.h"
#include "study/validate/measured_step.h"

namespace orrery::study {

/// One way to read a row.
struct Reading {
  core::Model model;
  core::Cluster cluster;
  core::Job job;
  core::Plan plan;
  costmodel::EstimateOptions options = {};
  // What the framework keeps beside what the estimate counts.
  core::Bytes more_memory = core::Bytes(0);
  int gradient_copies = 0;  ///< As large as the weights.
};

/// What rows are read by: the files beside the table of measured steps.
struct Conventions {
  Machines machines;
  Frameworks frameworks;
};

/// All ways to read a row, at most kMostReadings.
struct Readings {
  std::vector<Reading> readings;
  std::vector<std::string> open;  ///< Columns that were empty and vary over the readings.
  std::string skipped;            ///< Why there are none; empty otherwise.
};

inline constexpr std::size_t kMostReadings = 1024;

Readings readings_of(const MeasuredStep&, const Conventions&);

/// One line each, "file:line: column: found", for what rows say and readings do not follow: frameworks of
/// which no entry says anything (each once), and heads that do not divide the hidden size.
std::vector<std::string> doubts_about(const std::vector<MeasuredStep>&, const Conventions&);

}  // namespace orrery::study

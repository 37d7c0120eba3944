#pragma once
// The cost model held against published measurements: each row's own plan is estimated, and per
// source the errors are summed up.
//
// A row that leaves something open is predicted as an interval over its readings
// (study/validate/readings.h) and is wrong only by what the measurement lies beyond it:
//   error = 0 within [fastest, slowest]; (slowest − measured)/measured below, (fastest −
//   measured)/measured above.
// A reading that needs far more memory than the device has did not run, so it is left out where
// another one fits.

#include <optional>
#include <string>
#include <vector>

#include "core/units.h"
#include "costmodel/estimate.h"
#include "study/validate/measured_step.h"
#include "study/validate/readings.h"

namespace orrery::study {

/// A row and what was predicted for it.
struct RowResult {
  MeasuredStep measured;
  std::string skipped;  ///< Why nothing was predicted; empty otherwise.
  std::vector<std::string> open;
  bool fitted = false;             ///< Its framework's constant was fitted to it.
  core::Seconds fastest, slowest;  ///< Over the readings.
  core::Bytes least_memory, most_memory;
  costmodel::Estimate estimate;        ///< Of the reading in the middle.
  std::string plan;                    ///< Of that reading, in short.
  double error = 0.0;                  ///< Signed, of the measured time.
  std::optional<double> memory_error;  ///< Where memory was measured.

  bool predicted() const { return skipped.empty(); }
  /// Counts in its source's sums: predicted, not fitted to, and not recalled from memory.
  bool counted() const { return predicted() && measured.verified && !fitted; }
};

struct SourceResult {
  std::string source;
  std::string part;  ///< Rows it is about: empty = all, "one node", "A100-80", ...
  int rows = 0;      ///< Counted.
  int skipped = 0, recalled = 0, fitted = 0;
  // All as shares of what was measured; absent without such rows.
  std::optional<double> mean_error;    ///< Mean of |error|.
  std::optional<double> bias;          ///< Mean of error.
  std::optional<double> median_error;  ///< Of |error|.
  std::optional<double> memory_error;  ///< Mean of |memory error|.
  std::optional<double> memory_bias;
  std::optional<std::size_t> worst;  ///< Index of the row.
  double interval_width = 0.0;       ///< Mean of slowest/fastest − 1.
  /// Mean, over groups of rows that differ only in their plan, of how much slower the plan with the
  /// fastest prediction was than the fastest one. Rows of one plan count as its fastest.
  std::optional<double> regret;
  int regret_groups = 0;
};

struct Validation {
  std::vector<RowResult> rows;
  std::vector<SourceResult> sources;  ///< Each followed by its parts, where there are several.
};

struct ValidateOptions {
  std::optional<std::string> source;  ///< Only this one.
};

/// Uses all cores; the answer does not depend on their number.
Validation validate(const std::vector<MeasuredStep>&, const Conventions&, const ValidateOptions&);

}  // namespace orrery::study

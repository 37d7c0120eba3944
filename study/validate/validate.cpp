#include "study/validate/validate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "costmodel/dense_estimator.h"
#include "study/validate/source_sums.h"

namespace orrery::study {
namespace {

using core::Bytes;
using core::Seconds;

// What context, libraries and the allocator's gaps take was published as 0.5 GiB (a CUDA context), as
// 5.06 GB (what the Sailor planner adds), and as 15% of what the allocator holds (the mean over eight
// models on A100 of Guo et al., GMLake, ASPLOS 2024) beside Device::reserved.
constexpr Bytes kLeastReserved{0.5 * 1073741824.0};
constexpr Bytes kMostReserved{5.06e9};
constexpr double kFragmented = 0.15;

// Published memory is missed by up to a quarter, so a reading is ruled out only beyond that.
constexpr double kMemoryDoubt = 1.25;

struct Prediction {
  const Reading* reading;
  costmodel::Estimate estimate;
  bool fits;
};

/// What one memory measurement of several readings lies beyond; 0 within.
double beyond(double measured, double least, double most) {
  if (measured > most) return most / measured - 1.0;
  if (measured < least) return least / measured - 1.0;
  return 0.0;
}

/// What its framework keeps beside what is estimated included.
Bytes memory_of(const Prediction& p) {
  const auto weights = static_cast<std::size_t>(costmodel::MemoryTerm::Weights);
  return costmodel::total(p.estimate.memory) + p.reading->more_memory +
         p.estimate.memory[weights] * p.reading->gradient_copies;
}

std::vector<Prediction> predictions_of(const std::vector<Reading>& readings) {
  std::vector<Prediction> all;
  for (const Reading& reading : readings) {
    const costmodel::DenseEstimator estimator(reading.model, reading.cluster, reading.job,
                                              reading.options);
    const core::DensePlan& plan = *reading.plan.dense;
    costmodel::Estimate estimate = estimator.estimate(plan);
    const bool fits = costmodel::total(estimate.memory) <= estimate.memory_available * kMemoryDoubt;
    all.push_back({&reading, std::move(estimate), fits});
  }
  const bool any = std::any_of(all.begin(), all.end(), [](const auto& p) { return p.fits; });
  if (any) {
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto& p) { return !p.fits; }),
              all.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Prediction& a, const Prediction& b) {
    return a.estimate.step < b.estimate.step;
  });
  return all;
}

/// Where a source printed GB and its table took GiB, either may be meant: the nearer one counts.
double memory_error_of(const RowResult& row) {
  const double gib = row.measured.memory->value;
  const auto error = [&](double measured) {
    return beyond(measured, row.least_memory.value, row.most_memory.value);
  };
  const std::vector<std::string>& assumed = row.measured.assumed;
  if (std::find(assumed.begin(), assumed.end(), "memory_gib") == assumed.end()) return error(gib);
  const double as_gib = error(gib);
  const double as_gb = error(gib * (1e9 / 1073741824.0));
  return std::abs(as_gb) < std::abs(as_gib) ? as_gb : as_gib;
}

RowResult result_of(const MeasuredStep& measured, const Conventions& conventions) {
  RowResult row;
  row.measured = measured;
  Readings readings = readings_of(measured, conventions);
  row.fitted = framework_of(conventions.frameworks, measured).fitted_on(measured);
  row.skipped = readings.skipped;
  row.open = std::move(readings.open);
  if (!row.predicted()) return row;
  const std::vector<Prediction> all = predictions_of(readings.readings);
  const Prediction& middle = all[all.size() / 2];
  row.estimate = middle.estimate;
  row.plan = core::describe(middle.reading->plan);
  row.fastest = all.front().estimate.step;
  row.slowest = all.back().estimate.step;
  row.error = beyond(measured.step->value, row.fastest.value, row.slowest.value);
  row.least_memory = row.most_memory = memory_of(all.front());
  for (const Prediction& p : all) {
    const auto at = [&](costmodel::MemoryTerm term) {
      return p.estimate.memory[static_cast<std::size_t>(term)];
    };
    const Bytes rest = memory_of(p) - at(costmodel::MemoryTerm::Reserved);
    row.least_memory = std::min(row.least_memory, rest + kLeastReserved);
    const Bytes gaps = rest * (1.0 / (1.0 - kFragmented)) + at(costmodel::MemoryTerm::Reserved);
    row.most_memory = std::max({row.most_memory, rest + kMostReserved, gaps});
  }
  if (measured.memory) row.memory_error = memory_error_of(row);
  return row;
}

}  // namespace

Validation validate(const std::vector<MeasuredStep>& steps, const Conventions& conventions,
                    const ValidateOptions& options) {
  std::vector<const MeasuredStep*> wanted;
  for (const MeasuredStep& step : steps) {
    if (!options.source || step.source == *options.source) wanted.push_back(&step);
  }
  Validation validation;
  validation.rows.resize(wanted.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < wanted.size(); i = next++) {
      validation.rows[i] = result_of(*wanted[i], conventions);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  validation.sources = source_sums(validation.rows);
  return validation;
}

}  // namespace orrery::study

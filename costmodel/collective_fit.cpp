#include "costmodel/collective_fit.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "costmodel/levenberg_marquardt.h"

namespace orrery::costmodel {
namespace {

double& value_of(FabricCost& fabric, FabricParameter parameter) {
  core::Collectives& library = fabric.collectives;
  switch (parameter) {
    case FabricParameter::Port:
      return fabric.port.value;
    case FabricParameter::Inside:
      return fabric.inside.value;
    case FabricParameter::Card:
      return fabric.card.value;
    case FabricParameter::Across:
      return fabric.across.value;
    case FabricParameter::Base:
      return library.base.value;
    case FabricParameter::RingEnds:
      return library.ring_ends;
    case FabricParameter::LLWire:
      return library.ll.value().wire;
    case FabricParameter::InSwitchLatency:
      return library.in_switch.value().latency.value;
    case FabricParameter::InSwitchWire:
      return library.in_switch.value().wire;
  }
  core::check_failed("FabricParameter", "unknown parameter", __FILE__, __LINE__);
}

}  // namespace

core::Seconds predicted(const FabricCost& fabric, const CollectiveSample& sample) {
  if (!sample.in_switch && fabric.collectives.in_switch) {
    FabricCost without = fabric;
    without.collectives.in_switch.reset();
    return predicted(without, sample);
  }
  const auto method = choose_method(sample.kind, sample.bytes, sample.where, fabric);
  return collective_time(method, sample.kind, sample.bytes, sample.where, fabric);
}

FabricCost fit_collectives(const FabricCost& start, const std::vector<FabricParameter>& free,
                           const std::vector<CollectiveSample>& samples) {
  ORRERY_CHECK(samples.size() >= free.size(), "a fit needs a sample for each parameter");
  FabricCost fabric = start;
  const auto set = [&](const std::vector<double>& logs) {
    for (std::size_t p = 0; p < free.size(); ++p) value_of(fabric, free[p]) = std::exp(logs[p]);
  };
  const auto residuals = [&](const std::vector<double>& logs) {
    set(logs);
    std::vector<double> r;
    r.reserve(samples.size());
    for (const CollectiveSample& s : samples) r.push_back(std::log(predicted(fabric, s) / s.time));
    return r;
  };
  const auto sum = [&](const std::vector<double>& logs) {
    double squares = 0;
    for (const double r : residuals(logs)) squares += r * r;
    return squares;
  };
  std::vector<double> origin;
  for (const FabricParameter p : free) origin.push_back(std::log(value_of(fabric, p)));
  std::vector<double> best = least_squares(residuals, origin);
  for (std::size_t p = 0; p < free.size(); ++p) {
    for (const double factor : {0.5, 2.0}) {
      std::vector<double> from = origin;
      from[p] += std::log(factor);
      const std::vector<double> found = least_squares(residuals, from);
      if (sum(found) < sum(best)) best = found;
    }
  }
  set(best);
  return fabric;
}

CollectiveErrors errors_of(const FabricCost& fabric, const std::vector<CollectiveSample>& samples) {
  ORRERY_CHECK(!samples.empty(), "errors of no samples");
  CollectiveErrors errors;
  for (const CollectiveSample& s : samples) {
    const double error = predicted(fabric, s) / s.time - 1.0;
    errors.mean += std::abs(error);
    errors.bias += error;
    if (std::abs(error) > std::abs(errors.largest)) errors.largest = error;
  }
  errors.mean /= static_cast<double>(samples.size());
  errors.bias /= static_cast<double>(samples.size());
  return errors;
}

}  // namespace orrery::costmodel

#pragma once
// Of repeated measurements of one thing: what it takes when little disturbs it.

#include <vector>

namespace orrery::study {

/// The smallest value that a quarter of the values do not exceed. `values` must not be empty.
double lower_quartile(std::vector<double> values);

}  // namespace orrery::study

#include "study/lower_quartile.h"

#include <algorithm>

namespace orrery::study {

double lower_quartile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace orrery::study

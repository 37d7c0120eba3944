#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "costmodel/search.h"

namespace orrery::costmodel {

using core::Seconds;

std::string why_slower(const Estimate& best, const Estimate& other) {
  const Seconds more = other.step - best.step;
  if (more.value <= 0) return "as fast as the best plan";
  std::string text = fmt::format("{:.2f} times as long: ", other.step / best.step);
  struct Difference {
    TimeTerm term;
    Seconds seconds;
  };
  std::vector<Difference> differences;
  for (int t = 0; t < kTimeTerms; ++t) {
    const auto i = static_cast<std::size_t>(t);
    differences.push_back({static_cast<TimeTerm>(t), other.time[i] - best.time[i]});
  }
  // The largest ones either way; a tenth of the largest is of no account.
  const auto larger = [](const Difference& a, const Difference& b) {
    return std::abs(a.seconds.value) > std::abs(b.seconds.value);
  };
  std::stable_sort(differences.begin(), differences.end(), larger);
  std::string separator;
  for (const Difference& d : differences) {
    if (std::abs(d.seconds.value) < 0.1 * std::abs(differences.front().seconds.value)) break;
    text += fmt::format("{}{} {:+.3g} s", separator, time_term_name(d.term), d.seconds.value);
    separator = ", ";
  }
  return text;
}

}  // namespace orrery::costmodel

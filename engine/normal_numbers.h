#pragma once
// Random numbers that depend on where they are used and not on when: any layout of a model starts
// with the same weights.

#include <cstdint>
#include <string_view>

namespace orrery::engine {

/// Standard normal numbers for the elements of one named tensor.
class NormalNumbers {
 public:
  NormalNumbers(std::uint64_t seed, std::string_view tensor);
  double operator()(std::int64_t element) const;

 private:
  std::uint64_t key_;
};

}  // namespace orrery::engine

#pragma once
// An instruction's operands by number and type.

#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"
#include "engine/operator_context.h"

namespace orrery::engine {

/// Operands of one instruction, checked against what the operator will touch.
class Operands {
 public:
  explicit Operands(const OperatorContext& context) : context_(context) {}

  const float* in(std::size_t i, std::int64_t count) const {
    return at(context_.reads, i, count, "reads").floats();
  }
  const std::int32_t* ints(std::size_t i, std::int64_t count) const {
    return at(context_.reads, i, count, "reads").ints();
  }
  float* out(std::size_t i, std::int64_t count) const {
    return at(context_.writes, i, count, "writes").floats();
  }
  std::int32_t* ints_out(std::size_t i, std::int64_t count) const {
    return at(context_.writes, i, count, "writes").ints();
  }
  /// Like in() and out(), or null where the operator has no such operand.
  const float* in_if(bool present, std::size_t i, std::int64_t count) const {
    return present ? in(i, count) : nullptr;
  }
  float* out_if(bool present, std::size_t i, std::int64_t count) const {
    return present ? out(i, count) : nullptr;
  }

 private:
  static const Operand& at(std::span<const Operand> operands, std::size_t i, std::int64_t count,
                           const char* which) {
    if (i < operands.size() && operands[i].count >= count) return operands[i];
    const std::string found =
        i < operands.size() ? std::to_string(operands[i].count) + " elements" : "nothing";
    throw core::SystemError(std::string("unsound program: an operator ") + which + " operand " +
                            std::to_string(i) + " of " + std::to_string(count) +
                            " elements, found " + found);
  }

  const OperatorContext& context_;
};

}  // namespace orrery::engine

#pragma once
// The three kinds of failure: bad input throws, the outside world throws, our own bug aborts.
// (A plan that cannot work is not a failure but a value: costmodel/estimate.h, Infeasible.)

#include <stdexcept>
#include <string>

namespace orrery::core {

/// Bad input from the user. The message is complete: "file:line:column: key: what was found, what
/// is allowed". Caught once, in app/main.cpp: printed, exit status 2.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The outside world failed (file system, MPI, device). Caught in app/main.cpp: exit status 1.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Prints the broken condition and aborts, in all build types.
[[noreturn]] void check_failed(const char* condition, const std::string& why, const char* file,
                               int line);

}  // namespace orrery::core

/// Aborts when our own invariant is broken. Never for bad input.
#define ORRERY_CHECK(condition, why)                                                     \
  do {                                                                                   \
    if (!(condition)) ::orrery::core::check_failed(#condition, why, __FILE__, __LINE__); \
  } while (false)

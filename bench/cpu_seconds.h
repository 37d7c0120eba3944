#pragma once
// What a measurement is counted in where other programs share the machine.

#include <sys/resource.h>

namespace orrery::bench {

/// CPU seconds of this process so far, in user and kernel mode.
inline double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace orrery::bench

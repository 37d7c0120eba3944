#include "core/error.h"

#include <cstdio>
#include <cstdlib>

namespace orrery::core {

void check_failed(const char* condition, const std::string& why, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s: %s\n", file, line, condition, why.c_str());
  std::abort();
}

}  // namespace orrery::core

#include "app/progress.h"

#include <unistd.h>

#include <cstdio>

namespace orrery::app {

namespace {
constexpr const char* kClearLine = "\r\033[K";
}

Progress::Progress() : on_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs(kClearLine, stderr);
}

void Progress::say(const std::string& line) {
  if (!on_terminal_) return;
  std::fprintf(stderr, "%s%s", kClearLine, line.c_str());
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace orrery::app

#include "tests/app/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

namespace orrery::app {

namespace {

using Clock = std::chrono::steady_clock;

/// In the child: becomes the program. Only calls that are allowed after fork().
[[noreturn]] void become(char* const* arguments, const ProcessOptions& options, int out,
                         int error) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (options.largest_file) {
    const rlimit limit{*options.largest_file, *options.largest_file};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::chdir(options.folder.c_str()) != 0 || ::dup2(nothing, STDIN_FILENO) < 0 ||
      ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(error, STDERR_FILENO) < 0) {
    ::_exit(126);
  }
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

/// Collects both pipes until they end; false where `until` comes first.
bool collect(std::array<pollfd, 2> pipes, std::array<std::string*, 2> texts,
             Clock::time_point until) {
  int open = 2;
  while (open > 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    if (::poll(pipes.data(), pipes.size(), static_cast<int>(left)) < 0) continue;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (pipes[i].revents == 0) continue;
      char block[4096];
      const ssize_t got = ::read(pipes[i].fd, block, sizeof block);
      if (got > 0) {
        texts[i]->append(block, static_cast<std::size_t>(got));
      } else {
        pipes[i].fd = -1;  // poll() skips it.
        --open;
      }
    }
  }
  return true;
}

}  // namespace

std::string how(const Ended& ended) {
  if (ended.timed_out) return "timed out";
  return ended.status ? "exit status " + std::to_string(*ended.status) : "ended by a signal";
}

Ended run_process(const std::string& program, const std::vector<std::string>& arguments,
                  const ProcessOptions& options) {
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  int out[2];
  int error[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(error, O_CLOEXEC) != 0) std::abort();
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) become(pointers.data(), options, out[1], error[1]);
  ::close(out[1]);
  ::close(error[1]);
  Ended ended;
  ended.timed_out = !collect({pollfd{out[0], POLLIN, 0}, pollfd{error[0], POLLIN, 0}},
                             {&ended.out, &ended.error}, Clock::now() + options.at_most);
  if (ended.timed_out) ::kill(child, SIGKILL);
  ::close(out[0]);
  ::close(error[0]);
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  if (WIFEXITED(status)) ended.status = WEXITSTATUS(status);
  ended.peak_bytes = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
  return ended;
}

}  // namespace orrery::app

#pragma once
// The program as a process of its own: what it prints, how it ends, what it takes.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace orrery::app {

/// How a process ended.
struct Ended {
  std::optional<int> status;  ///< Exit status; absent where a signal ended it.
  bool timed_out = false;
  std::string out, error;
  std::size_t peak_bytes = 0;  ///< Largest resident memory.
};

/// "exit status 2", "signal 6", "timed out": for messages.
std::string how(const Ended&);

struct ProcessOptions {
  std::filesystem::path folder = ".";  ///< Working directory.
  std::chrono::seconds at_most{20};    ///< Then it is killed.
  std::optional<std::size_t> largest_file =
      {};  ///< Bytes; a longer write fails, as on a full disk.
};

/// Runs `program` with these arguments and without input.
Ended run_process(const std::string& program, const std::vector<std::string>& arguments,
                  const ProcessOptions&);

}  // namespace orrery::app

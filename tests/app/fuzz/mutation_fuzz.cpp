// Spoils a sound set of files at random and gives them to every command, thousands of times:
//
//   mutation_fuzz ORRERY RUNS SEED
//
// Each run must end by itself, soon, within little memory, with exit status 0, 1 or 2, and where it
// is not 0 with one line that says why. The files of a run that did not are kept and named. The
// same seed spoils the same way.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/app/example_files.h"
#include "tests/app/process.h"

namespace {

using namespace orrery::app;
namespace fs = std::filesystem;

// A command on these files takes milliseconds; what takes longer grows with a spoilt number.
constexpr std::chrono::seconds kMostTime{60};
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMostMemory = std::size_t{8} << 30;
#else
constexpr std::size_t kMostMemory = std::size_t{2} << 30;
#endif

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  /// 0 to n − 1.
  std::size_t below(std::size_t n) { return n == 0 ? 0 : engine_() % n; }
  template <class Items>
  const auto& of(const Items& items) {
    return items[below(std::size(items))];
  }

 private:
  std::mt19937_64 engine_;
};

// ---- mutations -------------------------------------------------------------------------------

void cut_off(std::string& text, Dice& dice) { text.resize(dice.below(text.size())); }

void flip_a_byte(std::string& text, Dice& dice) {
  if (!text.empty()) text[dice.below(text.size())] = static_cast<char>(dice.below(256));
}

void remove_a_piece(std::string& text, Dice& dice) {
  text.erase(dice.below(text.size()), 1 + dice.below(20));
}

void repeat_a_piece(std::string& text, Dice& dice) {
  const std::string piece = text.substr(dice.below(text.size()), 1 + dice.below(40));
  text.insert(dice.below(text.size()), piece);
}

struct Range {
  std::size_t begin = 0, end = 0;
};

/// Where the numbers are.
std::vector<Range> numbers_of(const std::string& text) {
  const std::string digits = "0123456789.";
  std::vector<Range> found;
  for (std::size_t at = 0; (at = text.find_first_of(digits, at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(digits + "e-", at), text.size());
    found.push_back({at, end});
    at = end;
  }
  return found;
}

void replace_a_number(std::string& text, Dice& dice) {
  static constexpr const char* kValues[] = {
      "0",    "-1",      "1",      "2",        "3",         "7",          "64",
      "1000", "1000000", "1e300",  "-1e300",   "1e-300",    "1e9",        "nan",
      "inf",  "true",    "\"x\"",  "\"\"",     "[]",        "{}",         "10000000",
      "0.5",  "4096",    "131072", "10000001", "999999999", "2147483647", "9223372036854775807"};
  const auto numbers = numbers_of(text);
  if (numbers.empty()) return;
  const Range range = dice.of(numbers);
  text.replace(range.begin, range.end - range.begin, dice.of(kValues));
}

/// Often still allowed, so that the value gets further than the readers.
void scale_a_number(std::string& text, Dice& dice) {
  static constexpr int kFactors[] = {2, 3, 4, 8, 10, 1000};
  const auto numbers = numbers_of(text);
  if (numbers.empty()) return;
  const Range range = dice.of(numbers);
  const std::string number = text.substr(range.begin, range.end - range.begin);
  const double value = std::strtod(number.c_str(), nullptr);
  const int factor = dice.of(kFactors);
  const bool up = dice.below(2) == 0;
  const double scaled = up ? value * factor : value / factor;
  const bool whole = number.find_first_of(".e") == std::string::npos;
  text.replace(range.begin, number.size(),
               whole ? fmt::format("{:.0f}", std::ceil(scaled)) : fmt::format("{}", scaled));
}

void remove_a_line(std::string& text, Dice& dice) {
  const std::size_t begin = text.rfind('\n', dice.below(text.size())) + 1;
  text.erase(begin, text.find('\n', begin) - begin);
}

using Mutation = void (*)(std::string&, Dice&);
// Numbers several times: what they break is the deepest.
constexpr Mutation kMutations[] = {scale_a_number,   scale_a_number, scale_a_number,
                                   scale_a_number,   scale_a_number, replace_a_number,
                                   replace_a_number, remove_a_line,  repeat_a_piece,
                                   remove_a_piece,   flip_a_byte,    cut_off};

// ---- runs ------------------------------------------------------------------------------------

struct Attempt {
  std::vector<std::string> arguments;
  std::vector<std::string> files;  ///< That the command reads.
};

const std::vector<Attempt>& attempts() {
  const std::vector<std::string> dense = {"plan.toml", "model.json", "cluster.toml", "job.toml"};
  const std::vector<std::string> sparse = {"ctr-plan.toml", "ctr-model.toml", "cluster.toml",
                                           "ctr-job.toml"};
  const auto with = [](std::vector<std::string> files, const char* more) {
    files.emplace_back(more);
    return files;
  };
  static const std::vector<Attempt> kAttempts = {
      {{"plan", "--model", "model.json", "--cluster", "cluster.toml", "--job", "job.toml",
        "--explain"},
       {dense.begin() + 1, dense.end()}},
      {{"plan", "--model", "ctr-model.toml", "--cluster", "cluster.toml", "--job", "ctr-job.toml"},
       {sparse.begin() + 1, sparse.end()}},
      {{"plan", "--model", "model.json", "--cluster", "pod.toml", "--job", "job.toml"},
       {"model.json", "pod.toml", "job.toml"}},
      {{"simulate", "pod-plan.toml", "--json"},
       {"model.json", "pod.toml", "job.toml", "pod-plan.toml"}},
      {{"simulate", "plan.toml"}, dense},
      {{"simulate", "ctr-plan.toml"}, sparse},
      {{"run", "plan.toml", "--steps", "1"}, with(dense, "text.txt")},
      {{"run", "ctr-plan.toml", "--steps", "1"}, with(sparse, "samples.tsv")},
      {{"view", "trace.h5", "--screenshot", "new.png", "--size", "640x360"}, {"trace.h5"}},
      {{"view", "trace.json", "--screenshot", "new.png", "--size", "640x360"}, {"trace.json"}},
      {{"view", "trace.json.gz", "--screenshot", "new.png", "--size", "640x360"},
       {"trace.json.gz"}}};
  return kAttempts;
}

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Why the end of a run is not as it should be; empty where it is.
std::string fault_of(const std::string& command, const Ended& ended) {
  if (ended.timed_out || !ended.status || *ended.status < 0 || *ended.status > 2) return how(ended);
  // A run may take what the machine has; whether that is enough, it asks before.
  if (command != "run" && ended.peak_bytes > kMostMemory)
    return fmt::format("{} bytes of memory", ended.peak_bytes);
  const auto lines = std::count(ended.error.begin(), ended.error.end(), '\n');
  if (*ended.status == 0) return "";
  if (lines != 1) return fmt::format("{}, {} lines", how(ended), lines);
  // Nobody could act on these.
  for (const char* words : {"unsound", "std::", "filesystem error", "vector::", "basic_string"}) {
    if (ended.error.find(words) != std::string::npos) return how(ended) + ", an internal message";
  }
  return "";
}

class Fuzz {
 public:
  Fuzz(std::string binary, fs::path folder)
      : binary_(std::move(binary)), folder_(std::move(folder)) {
    fs::create_directories(folder_);
    write_example_files(folder_);
    for (const char* trace : {"trace.h5", "trace.json", "trace.json.gz"}) {
      run({"simulate", "plan.toml", "-o", trace});
    }
    for (const auto& entry : fs::directory_iterator(folder_)) {
      sound_.push_back({entry.path().filename().string(), read_all(entry.path())});
    }
  }

  /// False where the program ended as it should not.
  bool attempt(std::uint64_t seed) {
    for (const ExampleFile& file : sound_) write(file);
    Dice dice(seed);
    const Attempt& attempt = dice.of(attempts());
    for (std::size_t left = 1 + dice.below(3); left > 0; --left)
      spoil(dice.of(attempt.files), dice);
    const Ended ended = run(attempt.arguments);
    ++ends_[ended.status.value_or(3) & 3];
    const std::string fault = fault_of(attempt.arguments.front(), ended);
    if (fault.empty()) return true;
    const fs::path kept = fmt::format("{}-{}", folder_.string(), seed);
    fs::remove_all(kept);
    fs::copy(folder_, kept);
    fmt::print("seed {}: orrery {} in {}: {}\n{}\n", seed, fmt::join(attempt.arguments, " "),
               kept.string(), fault, ended.error);
    return false;
  }

  std::string summary() const {
    return fmt::format("{} succeeded, {} failed, {} bad input", ends_[0], ends_[1], ends_[2]);
  }

 private:
  Ended run(const std::vector<std::string>& arguments) const {
    ProcessOptions options;
    options.folder = folder_;
    options.at_most = kMostTime;
    return run_process(binary_, arguments, options);
  }
  void write(const ExampleFile& file) const {
    std::ofstream(folder_ / file.name, std::ios::binary) << file.content;
  }
  void spoil(const std::string& name, Dice& dice) const {
    std::string text = read_all(folder_ / name);
    dice.of(kMutations)(text, dice);
    write({name, text});
  }

  std::string binary_;
  fs::path folder_;
  std::vector<ExampleFile> sound_;
  std::size_t ends_[4] = {};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: mutation_fuzz ORRERY RUNS SEED\n");
    return 2;
  }
  const std::uint64_t runs = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t first = std::strtoull(argv[3], nullptr, 10);
  const fs::path folder = fs::temp_directory_path() / fmt::format("orrery-fuzz-{}", ::getpid());
  Fuzz fuzz(fs::absolute(argv[1]), folder);
  std::uint64_t faults = 0;
  for (std::uint64_t run = 0; run < runs; ++run) faults += fuzz.attempt(first + run) ? 0 : 1;
  fs::remove_all(folder);
  fmt::print("{} runs: {}; {} of them ended as they should not\n", runs, fuzz.summary(), faults);
  return faults == 0 ? 0 : 1;
}

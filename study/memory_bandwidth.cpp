#include "study/memory_bandwidth.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace orrery::study {
namespace {

// 3 arrays of 32 MiB per thread; last-level caches are about as large as one of them.
constexpr std::size_t kElements = 4UL << 20;
constexpr int kPasses = 5;

// Best pass of one thread, in seconds. All threads pass together.
double best_pass(std::barrier<>& together) {
  std::vector<double> a(kElements, 0.0), b(kElements, 1.0), c(kElements, 2.0);
  double best = 0.0;
  for (int pass = 0; pass < kPasses; ++pass) {
    together.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    const double scalar = 3.0 + pass;
    for (std::size_t i = 0; i < kElements; ++i) a[i] = b[i] + scalar * c[i];
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    // The next pass reads what this one wrote, so that no pass is left out.
    std::swap(a, b);
    best = pass == 0 ? took.count() : std::min(best, took.count());
  }
  return best;
}

}  // namespace

core::BytesPerSecond measure_memory_bandwidth(int threads) {
  std::barrier together(threads);
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  std::vector<std::jthread> workers;
  for (double& of_thread : seconds) {
    workers.emplace_back([&together, &of_thread] { of_thread = best_pass(together); });
  }
  workers.clear();  // Joins.
  const double slowest = *std::max_element(seconds.begin(), seconds.end());
  return core::BytesPerSecond(3.0 * sizeof(double) * static_cast<double>(kElements) / slowest);
}

}  // namespace orrery::study

#include "sim/indexed_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace orrery::sim {
namespace {

// Against a plain map, over random additions, changes and removals.
TEST(IndexedHeap, GivesTheLeastKeyAndThenTheLeastIndex) {
  std::mt19937 random(5);
  IndexedHeap heap;
  std::map<int, double> plain;
  for (int round = 0; round < 20000; ++round) {
    if (random() % 4 == 0) {
      const int index = static_cast<int>(random() % 250);
      heap.remove(index);
      plain.erase(index);
    } else if (plain.empty() || random() % 3 != 0) {
      const int index = static_cast<int>(random() % 200);
      const double key = static_cast<double>(random() % 50);
      heap.set(index, key);
      plain[index] = key;
    } else {
      const auto least =
          std::min_element(plain.begin(), plain.end(),
                           [](const auto& a, const auto& b) { return a.second < b.second; });
      EXPECT_EQ(heap.least().index, least->first);
      EXPECT_EQ(heap.least().key, least->second);
      heap.remove_least();
      plain.erase(least);
    }
    EXPECT_EQ(heap.empty(), plain.empty());
  }
}

}  // namespace
}  // namespace orrery::sim

#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace orrery::sim {
namespace {

TEST(EventQueue, GivesEventsByTimeThenByInsertion) {
  EventQueue<char> queue;
  queue.push(core::Seconds(2), 'c');
  queue.push(core::Seconds(1), 'a');
  queue.push(core::Seconds(2), 'd');
  queue.push(core::Seconds(1), 'b');
  std::string order;
  while (!queue.empty()) order += queue.pop().payload;
  EXPECT_EQ(order, "abcd");
}

}  // namespace
}  // namespace orrery::sim

#include "app/table.h"

#include <gtest/gtest.h>

namespace {

// Columns as wide as their widest cell, two spaces apart, nothing after the last.
TEST(Table, AlignsTheFirstColumnLeftAndTheOthersRight) {
  orrery::app::Table table({"plan", "step"});
  table.add({"dp8 tp8", "1.2 s"});
  table.add({"dp64", "13.4 s"});
  EXPECT_EQ(table.text(),
            "plan       step\n"
            "dp8 tp8   1.2 s\n"
            "dp64     13.4 s\n");
}

// "µ" is two bytes and one column.
TEST(Table, CountsCharactersNotBytes) {
  orrery::app::Table table({"a", "µs"});
  table.add({"b", "100"});
  EXPECT_EQ(table.text(), "a   µs\nb  100\n");
}

}  // namespace

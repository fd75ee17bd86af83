// As lax as pydantic: what DeepSpeed reads as a whole number, and what no longer fits one.
#include "cli/deepspeed/value_types.h"

#include <gtest/gtest.h>

namespace fm::cli {
namespace {

std::optional<std::int64_t> int_of(const std::string& number) {
  return to_int(*parse_hjson("{a: " + number + "\n}", "t.json").member("a"));
}

TEST(ToInt, TakesWholeNumbersHoweverTheyAreWritten) {
  EXPECT_EQ(int_of("5e8"), 500'000'000);
  EXPECT_EQ(int_of("\"5e8\""), 500'000'000);
  EXPECT_EQ(int_of("-2.0"), -2);
  EXPECT_EQ(int_of("9223372036854775807"), 9223372036854775807);
  EXPECT_EQ(int_of("2.5"), std::nullopt);
}

// Every fp64 number from 2^53 on is whole; at 2^63 int64 ends (pydantic's limit for them too).
TEST(ToInt, TakesWholeNumbersUpToTheEndOfInt64) {
  EXPECT_EQ(int_of("9007199254740991.0"), 9007199254740991);
  EXPECT_EQ(int_of("-9007199254740991.0"), -9007199254740991);
  EXPECT_EQ(int_of("1e18"), 1'000'000'000'000'000'000);
  EXPECT_EQ(int_of("-1e16"), -10'000'000'000'000'000);
  for (const char* number :
       {"9223372036854775808", "9223372036854775807.0", "1e19", "1e300", "-1e300"}) {
    EXPECT_EQ(int_of(number), std::nullopt) << number;
  }
}

}  // namespace
}  // namespace fm::cli

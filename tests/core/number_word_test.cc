#include <gtest/gtest.h>

#include "core/text.h"

namespace fm::core {
namespace {

// As Python's float() reads them.
TEST(NumberWords, AreReadAsScriptsWriteThem) {
  const std::pair<const char*, double> numbers[] = {
      {"0.", 0.0},      {".5", 0.5},        {"+0.1", 0.1},   {"1.", 1.0},    {"1e-5", 1e-5},
      {"1.e-2", 1e-2},  {".1e-1", 1e-2},    {"-.5", -0.5},   {"+.5", 0.5},   {"-1.", -1.0},
      {"2E3", 2000.0},  {"1e+2", 100.0},    {"007", 7.0},    {"00.5", 0.5},  {"-0", 0.0},
      {"1_000", 1000.}, {"1_0.0_1", 10.01}, {"1e1_0", 1e10}, {"5e-05", 5e-5}};
  for (const auto& [word, value] : numbers) EXPECT_EQ(number_of(word), value) << word;
}

TEST(NumberWords, OtherWordsAreNone) {
  for (const char* word :
       {"",    ".",   "+",    "-",   "+-1",  "-+1",      "++1",  "--1",   "1e",    "e5",
        ".e5", "nan", "-nan", "inf", "+inf", "infinity", "0x10", "0x1p3", "1,5",   "1 ",
        " 1",  "1f",  "_1",   "1_",  "1__0", "1_.5",     "1._5", "1e_5",  "1e400", "five"}) {
    EXPECT_EQ(number_of(word), std::nullopt) << word;
  }
}

// As Python's int() reads them.
TEST(NumberWords, WholeOnesHaveNoPoint) {
  EXPECT_EQ(integer_of("+5"), 5);
  EXPECT_EQ(integer_of("-5"), -5);
  EXPECT_EQ(integer_of("010"), 10);
  EXPECT_EQ(integer_of("1_000_000"), 1000000);
  EXPECT_EQ(integer_of("9223372036854775807"), 9223372036854775807);
  for (const char* word : {"", "1.", "1.0", "1e3", "+", "+-1", "0x10", "1__0", "_1", "1_", "nan",
                           "9223372036854775808"}) {
    EXPECT_EQ(integer_of(word), std::nullopt) << word;
  }
}

}  // namespace
}  // namespace fm::core

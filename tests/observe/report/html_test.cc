#include <gtest/gtest.h>

#include "observe/report/numbers.h"

namespace fm::report {
namespace {

TEST(Escaped, MarkupIsText) {
  EXPECT_EQ(escaped("<script>alert(\"a&b\", 'c')</script>"),
            "&lt;script&gt;alert(&quot;a&amp;b&quot;, &#39;c&#39;)&lt;/script&gt;");
}

TEST(Escaped, WholeCharactersStay) {
  EXPECT_EQ(escaped("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\t\n"),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\t\n");
}

// The cases of RFC 3629, section 10: overlong, surrogates, beyond U+10FFFF, cut.
TEST(Escaped, WhatIsNoTextIsReplaced) {
  const std::string bad = "\uFFFD";
  EXPECT_EQ(escaped(std::string_view("a\0b\x1B\x7F", 5)), "a" + bad + "b" + bad + bad);
  EXPECT_EQ(escaped("\xC0\x80"), bad + bad);
  EXPECT_EQ(escaped("\xED\xA0\x80"), bad + bad + bad);
  EXPECT_EQ(escaped("\xF4\x90\x80\x80"), bad + bad + bad + bad);
  EXPECT_EQ(escaped("\xE2\x82"), bad + bad);
  EXPECT_EQ(escaped("\xFF<"), bad + "&lt;");
}

TEST(Colours, APhaseHasOneAndUnknownOnesDiffer) {
  EXPECT_EQ(colour_of("forward", 0), colour_of("forward", 5));
  EXPECT_NE(colour_of("forward", 0), colour_of("backward", 0));
  EXPECT_NE(colour_of("new", 1), colour_of("newer", 2));
  EXPECT_LT(colour_of("new", 1'000), kColours);
  for (int nth = 0; nth < 9; ++nth) EXPECT_NE(colour_of("new", nth), colour_of("other", nth));
}

}  // namespace
}  // namespace fm::report

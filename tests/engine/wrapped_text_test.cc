#include "engine/shown/wrapped_text.h"

#include <gtest/gtest.h>

namespace fm::engine {
namespace {

TEST(WrappedText, ALineThatFitsStaysAsItIs) {
  EXPECT_EQ(wrapped("  ranks      2 = data 2", {.columns = 23, .indent = 13}),
            "  ranks      2 = data 2");
}

TEST(WrappedText, IsBrokenBehindACommaRatherThanBetweenANameAndItsNumber) {
  EXPECT_EQ(wrapped("  model      hidden 64, layers 2, heads 4 (kv 2), ffn 128, vocabulary 600",
                    {.columns = 41, .indent = 13}),
            "  model      hidden 64, layers 2,\n"
            "             heads 4 (kv 2), ffn 128,\n"
            "             vocabulary 600");
}

TEST(WrappedText, NeverBesideWhatJoinsTwoWords) {
  EXPECT_EQ(wrapped("fmengine: a long project / experiment", {.columns = 25, .indent = 4}),
            "fmengine: a long\n    project / experiment");
  EXPECT_EQ(wrapped("16 samples = 8 each x 2 ranks", {.columns = 20, .indent = 2}),
            "16 samples = 8\n  each x 2 ranks");
}

TEST(WrappedText, AWordWithoutASpaceIsLongerThanTheWindow) {
  EXPECT_EQ(wrapped("  data       /a/very/long/path/of/some/file.jsonl: 3",
                    {.columns = 30, .indent = 13}),
            "  data       /a/very/long/path/of/some/file.jsonl:\n             3");
  EXPECT_EQ(wrapped("see /a/very/long/path/of/some/file.jsonl", {.columns = 20, .indent = 2}),
            "see\n  /a/very/long/path/of/some/file.jsonl");
}

TEST(WrappedText, ColumnsAreCharactersAndNotBytes) {
  EXPECT_EQ(wrapped("\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC "
                    "\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC",
                    {.columns = 20, .indent = 0}),
            "\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC "
            "\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC\u00FC");
}

}  // namespace
}  // namespace fm::engine

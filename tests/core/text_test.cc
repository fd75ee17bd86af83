#include "core/text.h"

#include <gtest/gtest.h>

#include "core/shell_word.h"

namespace fm::core {
namespace {

using Words = std::vector<std::string>;

TEST(ShellWord, IsReadBackByAShell) {
  EXPECT_EQ(shell_word("build/fmengine-report"), "build/fmengine-report");
  EXPECT_EQ(shell_word("my run/it's"), "'my run/it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Text, NearestFindsTheTypo) {
  const Words keys = {"train_batch_size", "gradient_clipping", "optimizer", "fp16"};
  EXPECT_EQ(nearest("train_batch_sise", keys), "train_batch_size");
  EXPECT_EQ(nearest("gradient-clipping", keys), "gradient_clipping");
  EXPECT_EQ(nearest("OPTIMISER", keys), "optimizer");
  EXPECT_EQ(nearest("fp61", Words{"fp16", "fp64"}), "fp64");  // one letter, not two
}

TEST(Text, NearestIsSilentWhenMoreThanAThirdDiffers) {
  const Words keys = {"optimizer", "fp16"};
  EXPECT_EQ(nearest("scheduler", keys), "");
  EXPECT_EQ(nearest("bf32", keys), "");
  EXPECT_EQ(nearest("optixxxer", keys), "optimizer");  // three of nine
  EXPECT_EQ(nearest("optxxxxer", keys), "");           // four of nine
  EXPECT_EQ(nearest("anything", Words{}), "");
}

TEST(Text, MisspeltIsSilentWhenMoreThanTwoLettersOrAFifthDiffer) {
  const Words keys = {"optimizer", "comet", "train_batch_size", "gradient_accumulation_steps",
                      "aio"};
  EXPECT_EQ(misspelt("Optimiser", keys), "optimizer");
  EXPECT_EQ(misspelt("optimisr", keys), "");  // two of eight
  EXPECT_EQ(misspelt("trainbatchsize", keys), "train_batch_size");
  EXPECT_EQ(misspelt("gradient_accumulation_dtype", keys), "");  // three
  EXPECT_EQ(misspelt("comment", keys), "");
  EXPECT_EQ(misspelt("aim", keys), "");  // words of four letters have too many neighbours
  EXPECT_EQ(misspelt("AIO", keys), "aio");
}

TEST(Text, HumanBytesAreDecimal) {
  EXPECT_EQ(human(Bytes(0)), "0 B");
  EXPECT_EQ(human(Bytes(999)), "999 B");
  EXPECT_EQ(human(Bytes(1000)), "1.0 kB");
  EXPECT_EQ(human(Bytes(340'000'000)), "340.0 MB");
  EXPECT_EQ(human(Bytes(1'240'000'000)), "1.2 GB");
}

TEST(Text, WhatRoundsToAThousandTakesTheNextUnit) {
  EXPECT_EQ(human(Bytes(999'949)), "999.9 kB");
  EXPECT_EQ(human(Bytes(999'950)), "1.0 MB");
  EXPECT_EQ(human(Bytes(999'999)), "1.0 MB");
  EXPECT_EQ(human(Bytes(999'949'999)), "999.9 MB");
  EXPECT_EQ(human(Bytes(999'999'999)), "1.0 GB");
  EXPECT_EQ(human_count(999'999), "1.0 M");
  EXPECT_EQ(human_count(999'960'000), "1.0 B");
}

TEST(Text, HumanCountsAreShort) {
  EXPECT_EQ(human_count(12), "12");
  EXPECT_EQ(human_count(4'200), "4.2 k");
  EXPECT_EQ(human_count(5'100'000), "5.1 M");
  EXPECT_EQ(human_count(1.2e9), "1.2 B");
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b,", ','), (Words{"a", "", "b", ""}));
  EXPECT_EQ(split("", ','), (Words{""}));
}

TEST(Text, JoinPutsTheSeparatorBetween) {
  EXPECT_EQ(join(Words{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(Words{"", "b"}, ","), ",b");
  EXPECT_EQ(join(Words{}, ","), "");
}

TEST(Text, OneByteOrderMarkIsCutOff) {
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBFtext"), "text");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF\xEF\xBB\xBF"), "\xEF\xBB\xBF");
  EXPECT_EQ(without_byte_order_mark("text\xEF\xBB\xBF"), "text\xEF\xBB\xBF");
  EXPECT_EQ(without_byte_order_mark("\xEF\xBB"), "\xEF\xBB");
}

TEST(Text, LowerLeavesOtherBytesAlone) { EXPECT_EQ(lower("AbC-9_\xC3\x84"), "abc-9_\xC3\x84"); }

TEST(Text, AShortenedTextKeepsWholeCharacters) {
  EXPECT_EQ(shortened("short"), "short");
  EXPECT_EQ(shortened(std::string(300, 'a')), std::string(300, 'a'));
  EXPECT_EQ(shortened(std::string(301, 'a')), std::string(300, 'a') + "...");
  EXPECT_EQ(shortened(std::string(299, 'a') + "\u00e9b"), std::string(299, 'a') + "...");
}

TEST(Text, BracketsOfJsonAreCountedOutsideOfItsTexts) {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  EXPECT_TRUE(is_shallow(nested(100)));
  EXPECT_FALSE(is_shallow(nested(101)));
  EXPECT_FALSE(is_shallow("{\"a\":" + nested(100)));
  EXPECT_TRUE(is_shallow("[\"" + nested(500) + "\\\"" + nested(500) + "\"]"));
  EXPECT_FALSE(is_shallow("[\"\\\\\"," + nested(100)));  // the text ends behind its backslash
  EXPECT_TRUE(is_shallow("\"\\"));
}

}  // namespace
}  // namespace fm::core

// --columns: what the columns of rows mean.
#include "text/data/columns.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::data {
namespace {

using Names = std::vector<std::string>;

Columns columns(std::string_view words) {
  Columns made;
  made.add(words);
  return made;
}

TEST(Columns, GiveNamesTheirMeanings) {
  Columns two = columns("question=prompt,the answer=completion");
  two.add("x=y=z");
  EXPECT_EQ(two.meaning_of("question"), "prompt");
  EXPECT_EQ(two.meaning_of("the answer"), "completion");
  EXPECT_EQ(two.meaning_of("x"), "y=z");
  EXPECT_EQ(two.meaning_of("id"), "id");
  EXPECT_TRUE(two.has_meaning("prompt"));
  EXPECT_FALSE(two.has_meaning("question"));
  EXPECT_EQ(two.words(), "question=prompt,the answer=completion,x=y=z");
}

TEST(Columns, WhatIsNoPairIsRefused) {
  for (const char* const words : {"", "a", "=b", "a=", "a=b,", "a=b,a=c"}) {
    const auto said = testing::message_of<core::UserError>(10, [&] { columns(words); });
    EXPECT_TRUE(said.starts_with("--columns must ")) << said;
  }
}

TEST(Columns, ARowMustHaveOneOfThoseWithAMeaningOrThatItself) {
  const Columns both = columns("question=prompt,query=prompt");
  EXPECT_EQ(both.check(Names{"id", "query"}), "");
  EXPECT_EQ(both.check(Names{"prompt"}), "");
  EXPECT_EQ(both.check(Names{"id", "ask"}),
            "a column \"query\" is required by --columns query=prompt; name one that the row has "
            "(id, ask)");
}

}  // namespace
}  // namespace fm::data

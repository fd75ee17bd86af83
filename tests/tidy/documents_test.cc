// Every law of Markdown is shown red once, beside a text that obeys.
#include "tests/tidy/documents.h"

#include <gtest/gtest.h>

namespace fm::tidy {
namespace {

constexpr DocumentLimits kSmall = {.columns = 20, .paragraph_words = 4};

std::string lines_of(const Findings& findings) {
  std::string lines;
  for (const Finding& finding : findings) lines += std::to_string(finding.line) + " ";
  return lines;
}

std::string broken(const std::string& text) { return lines_of(document_lengths(text, kSmall)); }

TEST(Documents, LinesHaveACap) {
  EXPECT_EQ(broken("12345678901234567 90\n"), "");
  EXPECT_EQ(broken("123456789012345678 01\n"), "1 ");
  EXPECT_EQ(broken("```\n123456789012345678 01\n```\n"), "2 ");
  EXPECT_EQ(broken("a\n\n| 12345678901234567 |\n"), "3 ");
  EXPECT_EQ(broken("https://one.word/of/a/long/line\n"), "");
  EXPECT_EQ(broken("\xC3\xA4\xC3\xA4 78901234567890123\n"), "") << "characters, not bytes";
}

TEST(Documents, ParagraphsHaveACap) {
  EXPECT_EQ(broken("a b\nc d\n"), "");
  EXPECT_EQ(broken("x\n\na b\nc d\ne\n\ny\n"), "3 ");
  EXPECT_EQ(broken("a b c d e"), "1 ") << "without an end of the line";
  EXPECT_EQ(broken("- a b c\n- d e f\n1. g h i\n"), "") << "items are paragraphs";
  EXPECT_EQ(broken("- a b\n  c d e\n"), "1 ");
  EXPECT_EQ(broken("```\na b c d e f\n```\n"), "");
  EXPECT_EQ(broken("| a | b | c | d |\n# a b c d e f\n"), "");
  EXPECT_EQ(broken("a b c\n| d |\ne f g\n"), "");
}

std::string absent(const std::string& text) {
  const std::set<std::string> there = {"core/a.h", "core/a.cc", "docs/b.md", "core/", "test.sh"};
  return lines_of(
      named_paths(text, {"output"}, [&](const std::string& path) { return there.contains(path); }));
}

TEST(Documents, NamedPathsExist) {
  EXPECT_EQ(absent("`core/a.h`, `core/a.{h,cc}`, `core/`, `./test.sh` [b](docs/b.md#part)\n"), "");
  EXPECT_EQ(absent("x\n`core/b.h`\n"), "2 ");
  EXPECT_EQ(absent("`core/a.{h,cu}`\n"), "1 ");
  EXPECT_EQ(absent("`core/a.h: f` `core/b.h: f`\n"), "1 ");
  EXPECT_EQ(absent("`cores/`\n"), "1 ");
  EXPECT_EQ(absent("[b](docs/c.md)\n"), "1 ");
  EXPECT_EQ(absent("`./quick.sh`\n"), "1 ");
}

TEST(Documents, OtherWordsAreNoPaths) {
  EXPECT_EQ(absent("`output/latest.txt` `a.h` `/proc/x.y` `on/off` `x --y z/a.b` [c](#d)\n"), "");
  EXPECT_EQ(absent("[c](https://d.e/f.g)\n```\n`core/b.h`\n```\n"), "");
}

TEST(Documents, CitationsAreFound) {
  const auto cited = cited_documents(
      "int x;  // as A.md says\n\"B.md\"\n// (docs/c.md, \"Two words\").\n// x.mdx, .md\n");
  ASSERT_EQ(cited.size(), 2U);
  EXPECT_EQ(cited[0].line, 1);
  EXPECT_EQ(cited[0].document, "A.md");
  EXPECT_EQ(cited[0].section, "");
  EXPECT_EQ(cited[1].line, 3);
  EXPECT_EQ(cited[1].document, "docs/c.md");
  EXPECT_EQ(cited[1].section, "Two words");
}

TEST(Documents, HeadingsAreWhole) {
  EXPECT_TRUE(has_heading("# A\n\n## Two words\n", "Two words"));
  EXPECT_FALSE(has_heading("## Two words more\nTwo words\n", "Two words"));
}

}  // namespace
}  // namespace fm::tidy

#include "cli/foreign/read_yaml.h"

#include <fstream>
#include <sstream>

#include "core/text.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using core::JsonKind;
using core::JsonTree;

std::string refused(const std::string& text) {
  return refusal_of([&] { read_yaml(text, "f.yml"); });
}

// Lines "WORD KIND VALUE" as PyYAML's safe_load reads the word.
TEST(Yaml, PlainScalarsAreThoseOfPyYaml) {
  std::ifstream file(std::string(FM_FOREIGN) + "/yaml_scalars.txt");
  int words = 0;
  for (std::string line; std::getline(file, line); ++words) {
    std::istringstream parts(line);
    std::string word, kind, value;
    parts >> word >> kind >> value;
    const JsonTree read = *read_yaml("k: " + word, "f").member("k");
    switch (read.kind) {
      case JsonKind::kNull: EXPECT_EQ(kind, "null") << word; break;
      case JsonKind::kBool:
        EXPECT_EQ(kind, "bool") << word;
        EXPECT_EQ(read.boolean, value == "true") << word;
        EXPECT_EQ(read.text, word);
        break;
      case JsonKind::kNumber:
        EXPECT_TRUE(kind == "int" || kind == "float") << word;
        EXPECT_EQ(read.number, std::stod(value)) << word;
        EXPECT_TRUE(kind != "int" || read.text == value) << word;
        break;
      case JsonKind::kString:
        EXPECT_EQ(kind, "text") << word;
        EXPECT_EQ(read.text, value);
        break;
      case JsonKind::kArray:
      case JsonKind::kObject: ADD_FAILURE() << word;
    }
  }
  EXPECT_GT(words, 50);
}

TEST(Yaml, ValuesKnowTheirLines) {
  const JsonTree root = read_yaml(
      "# words\na: 1\nb:\n  - x\n  - {c: 'yes', d: \"1\"}\ne: &name [p, q]\nf: *name\ng:\n  >-\n"
      "  two\n  lines\n",
      "f.yml");
  EXPECT_EQ(root.member("a")->line, 2);
  EXPECT_EQ(root.member("b")->line, 3);
  const JsonTree& item = root.member("b")->items[1];
  EXPECT_EQ(item.member("c")->kind, JsonKind::kString);
  EXPECT_EQ(item.member("d")->text, "1");
  EXPECT_EQ(root.member("f")->items[1].text, "q");
  EXPECT_EQ(root.member("g")->text, "two lines");
  EXPECT_EQ(read_yaml("", "f").kind, JsonKind::kNull);
}

TEST(Yaml, WhatIsNotUnderstoodIsNamedWithItsLine) {
  EXPECT_EQ(refused("a: 1\nb: 2\na: 3\n"),
            "f.yml:3: the key a stands here for the second time; keep one");
  EXPECT_TRUE(refused("a: 1\n b: 2\n").starts_with("f.yml:2: YAML is required ("))
      << refused("a: 1\n b: 2\n");
  EXPECT_TRUE(refused("a: !!python/object:os.system x\n").starts_with("f.yml:1: tags are not"));
  EXPECT_TRUE(refused("a: &x {b: 1}\nc:\n  <<: *x\n").starts_with("f.yml:3: merged maps"));
  EXPECT_TRUE(refused("a: *x\n").starts_with("f.yml:1: the anchor &x is required"));
  EXPECT_TRUE(refused("a: 1\n---\nb: 2\n").starts_with("f.yml:2: one document is required"));
  EXPECT_TRUE(refused(std::string(200, '[')).starts_with("f.yml:1: the file nests too deep"));
  std::string doubled = "a0: &a0 [x, x]\n";
  for (int at = 1; at < 40; ++at) {
    const std::string before = std::to_string(at - 1), now = std::to_string(at);
    doubled += "a" + now + ": &a" + now + " [*a" + before + ", *a" + before + "]\n";
  }
  EXPECT_TRUE(core::join(std::vector{refused(doubled)}, "").find("too many values") !=
              std::string::npos);
}

}  // namespace
}  // namespace fm::cli

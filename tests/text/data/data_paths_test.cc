// What a file is read as.
#include "text/data/data_paths.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::data {
namespace {

TEST(FormatOf, FollowsTheEndOfTheNameInAnyCase) {
  for (const char* const path : {"a/b.bin", "T.BIN", "x.i32", "X.I32", "a.jsonl.bin"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kTokens) << path;
  }
  for (const char* const path : {"a.jsonl", "A.JSONL", "a.json", "a.bin.Json"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kJsonl) << path;
  }
}

TEST(FormatOf, AFormatThatWasNamedWins) {
  EXPECT_EQ(format_of("a.bin", DataFormat::kJsonl), DataFormat::kJsonl);
  EXPECT_EQ(format_of("a.txt", DataFormat::kTokens), DataFormat::kTokens);
}

TEST(FormatOf, ANameThatSaysNothingIsRefused) {
  const testing::ScratchFolder scratch;
  for (const char* const name : {"a.txt", "bin", "a.jsonl/x"}) {
    const std::string path = (scratch.path() / name).string();
    std::filesystem::create_directories(path);
    const auto said =
        testing::message_of<core::UserError>(10, [&] { format_of(path, DataFormat::kAuto); });
    EXPECT_NE(said.find("add --data_format jsonl"), std::string::npos) << said;
  }
}

// Such as the name of a data set of Hugging Face.
TEST(FormatOf, ANameThatLeadsNowhereIsRefusedAsSuch) {
  for (const char* const path : {"wikitext", ""}) {
    const auto said =
        testing::message_of<core::UserError>(11, [&] { format_of(path, DataFormat::kAuto); });
    EXPECT_EQ(said,
              std::string("data_path must name an existing file; check the path (data_path=") +
                  path + ")");
  }
}

TEST(FormatOf, ACompressedTextIsText) {
  for (const char* const path : {"a.jsonl.gz", "A.JSONL.ZST", "a.json.gz"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kJsonl) << path;
  }
}

class FindData : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // "weight: file file" of every part.
  std::vector<std::string> parts(const std::vector<std::string>& words) const {
    std::vector<std::string> all;
    for (const DataPart& part : find_data(words, DataFormat::kAuto)) {
      all.push_back(core::concat(part.weight, ":"));
      for (const DataFile& file : part.files) {
        all.back() += " " + std::filesystem::path(file.path).filename().string();
      }
    }
    return all;
  }
  std::string refusal(int code, const std::vector<std::string>& words) const {
    return testing::message_of<core::UserError>(code, [&] { parts(words); });
  }
  testing::ScratchFolder folder_;
  using Parts = std::vector<std::string>;
};

TEST_F(FindData, FoldersAndPatternsAreFilesInTheOrderOfTheirNames) {
  for (const char* const name : {"b.jsonl", "a.jsonl.gz", "c.bin", "README.md", ".x.jsonl"}) {
    folder_.write(name, "{}");
  }
  std::filesystem::create_directories(path("deeper"));
  EXPECT_EQ(parts({path("")}), Parts{"0: a.jsonl.gz b.jsonl c.bin"});
  EXPECT_EQ(parts({path("*.jsonl*")}), Parts{"0: a.jsonl.gz b.jsonl"});
  EXPECT_EQ(parts({path("[bc].*"), path("a.jsonl.gz")}), Parts{"0: b.jsonl c.bin a.jsonl.gz"});
}

TEST_F(FindData, NumbersAreWeights) {
  folder_.write("a.jsonl", "{}");
  folder_.write("b.bin", "");
  EXPECT_EQ(parts({"0.3", path("a.jsonl"), "7e-1", path("*.bin")}),
            (Parts{"0.3: a.jsonl", "0.7: b.bin"}));
  EXPECT_EQ(parts({"2", path("a.jsonl")}), Parts{"2: a.jsonl"});
  EXPECT_NE(refusal(10, {"0.3", path("a.jsonl"), "0.7"}).find("(3 words, the first is"),
            std::string::npos);
  for (const char* const weight : {"0", "-1", "inf", "nan", "x"}) {
    const std::string said = refusal(10, {"1", path("a.jsonl"), weight, path("b.bin")});
    EXPECT_NE(said.find("must be a number above 0"), std::string::npos) << said;
  }
}

TEST_F(FindData, WhatIsThereTwiceOrNotAtAllIsRefused) {
  const std::string file = folder_.write("a.jsonl", "{}");
  std::filesystem::create_directories(path("empty"));
  EXPECT_NE(refusal(10, {file, path("*.jsonl")}).find("must be named once"), std::string::npos);
  EXPECT_NE(refusal(10, {"1", file, "1", path("./a.jsonl")}).find("must be named once"),
            std::string::npos);
  EXPECT_NE(refusal(11, {path("*.bin")}).find("must match a file"), std::string::npos);
  EXPECT_NE(refusal(11, {path("empty")}).find("empty: a folder of data must hold files"),
            std::string::npos);
  EXPECT_NE(refusal(11, {}).find("data_path is required"), std::string::npos);
}

}  // namespace
}  // namespace fm::data

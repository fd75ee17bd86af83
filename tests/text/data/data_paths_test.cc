// What a file is read as.
#include "text/data/data_paths.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::data {
namespace {

TEST(FormatOf, FollowsTheEndOfTheNameInAnyCase) {
  for (const char* const path : {"a/b.bin", "T.BIN", "x.i32", "X.I32", "a.jsonl.bin"}) {
    EXPECT_EQ(file_of(path, DataFormat::kAuto).format, DataFormat::kTokens) << path;
  }
  for (const char* const path : {"a.jsonl", "A.JSONL", "a.json", "a.bin.Json"}) {
    EXPECT_EQ(file_of(path, DataFormat::kAuto).format, DataFormat::kJsonl) << path;
  }
}

TEST(FormatOf, AFormatThatWasNamedWins) {
  EXPECT_EQ(file_of("a.bin", DataFormat::kJsonl).format, DataFormat::kJsonl);
  EXPECT_EQ(file_of("a.txt", DataFormat::kTokens).format, DataFormat::kTokens);
}

TEST(FormatOf, ANameThatSaysNothingIsRefused) {
  const testing::ScratchFolder scratch;
  for (const char* const name : {"a.md", "bin", "a.jsonl/x"}) {
    const std::string path = (scratch.path() / name).string();
    std::filesystem::create_directories(path);
    const auto said =
        testing::message_of<core::UserError>(10, [&] { file_of(path, DataFormat::kAuto); });
    EXPECT_NE(said.find("add --data_format jsonl"), std::string::npos) << said;
  }
}

// Such as the name of a data set of Hugging Face.
TEST(FormatOf, ANameThatLeadsNowhereIsRefusedAsSuch) {
  for (const char* const path : {"wikitext", ""}) {
    const auto said =
        testing::message_of<core::UserError>(11, [&] { file_of(path, DataFormat::kAuto); });
    EXPECT_EQ(said,
              std::string("data_path must name an existing file; check the path (data_path=") +
                  path + ")");
  }
}

TEST(FormatOf, ADataSetOfTheHubIsFetchedByOneLine) {
  const auto said = testing::message_of<core::UserError>(
      11, [&] { file_of("tatsu-lab/alpaca", DataFormat::kAuto); });
  EXPECT_NE(
      said.find("load_dataset(\"tatsu-lab/alpaca\", split=\"train\").to_json(\"alpaca.jsonl\")"),
      std::string::npos)
      << said;
}

// Names of Hugging Face's datasets: text, csv, parquet, arrow.
TEST(FormatOf, RowsAreWrittenAsTheNameSays) {
  const auto rows = [](const char* path, const RowOptions& options = {}) {
    const DataFile file = file_of(path, DataFormat::kAuto, options);
    EXPECT_EQ(file.format, DataFormat::kJsonl);
    return file.rows;
  };
  EXPECT_EQ(rows("a.txt"), RowLayout::kTextLines);
  EXPECT_EQ(rows("a.TXT.gz"), RowLayout::kTextLines);
  EXPECT_EQ(rows("a.txt", {.sample_by = SampleBy::kParagraph}), RowLayout::kParagraphs);
  EXPECT_EQ(rows("a.txt", {.sample_by = SampleBy::kDocument}), RowLayout::kWholeFile);
  EXPECT_EQ(rows("a.csv", {.sample_by = SampleBy::kDocument}), RowLayout::kCsv);
  EXPECT_EQ(rows("a.tsv.zst"), RowLayout::kTsv);
  EXPECT_EQ(rows("a.parquet"), RowLayout::kParquet);
  EXPECT_EQ(rows("a.arrow"), RowLayout::kArrow);
  EXPECT_EQ(rows("a.jsonl"), RowLayout::kJsonLines);
  EXPECT_EQ(file_of("a.log", DataFormat::kText).rows, RowLayout::kTextLines);
}

TEST(FormatOf, OfTextAloneWhatANameDoesNotTellIsJsonl) {
  EXPECT_EQ(file_of("a.txt", DataFormat::kRows).rows, RowLayout::kTextLines);
  EXPECT_EQ(file_of("a.bin", DataFormat::kRows).rows, RowLayout::kJsonLines);
  EXPECT_EQ(file_of("a", DataFormat::kRows).rows, RowLayout::kJsonLines);
}

TEST(FormatOf, ACompressedTextIsText) {
  for (const char* const path : {"a.jsonl.gz", "A.JSONL.ZST", "a.json.gz"}) {
    EXPECT_EQ(file_of(path, DataFormat::kAuto).format, DataFormat::kJsonl) << path;
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

TEST_F(FindData, TextOfAFolderIsReadAndWhatDescribesDataIsNot) {
  for (const char* const name : {"a.txt", "b.csv", "dataset_infos.json", "README.md"}) {
    folder_.write(name, "{}");
  }
  EXPECT_EQ(parts({path("")}), Parts{"0: a.txt b.csv"});
}

TEST_F(FindData, AFolderOfSeveralSplitsIsRefusedWithThePatterns) {
  for (const char* const name :
       {"train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl", "test-00000-of-00001.jsonl"}) {
    folder_.write(name, "{}");
  }
  const std::string said = refusal(10, {path("")});
  EXPECT_NE(said.find("--data_path '" + path("train") +
                      "*', and to evaluate with, "
                      "--eval_data_path '" +
                      path("test") + "*'"),
            std::string::npos)
      << said;
  EXPECT_EQ(parts({path("train*")}),
            Parts{"0: train-00000-of-00002.jsonl train-00001-of-00002.jsonl"});
}

TEST_F(FindData, AFolderWhoseFoldersHoldTheDataNamesThem) {
  std::filesystem::create_directories(path("data"));
  folder_.write("README.md", "x");
  folder_.write("data/train.jsonl", "{}");
  const std::string said = refusal(11, {path("")});
  EXPECT_TRUE(said.ends_with("; name one of those in it that do: " + path("data"))) << said;
}

// What datasets 5.2 writes, shortened.
TEST_F(FindData, ASavedDatasetIsTheFilesOfItsState) {
  std::filesystem::create_directories(path("saved"));
  folder_.write("saved/dataset_info.json", "{}");
  folder_.write("saved/state.json",
                R"({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": null})");
  EXPECT_EQ(parts({path("saved")}), Parts{"0: data-00000-of-00001.arrow"});
  folder_.write("saved/state.json", R"({"_data_files": [{"filename": "../x.arrow"}]})");
  EXPECT_NE(refusal(11, {path("saved")}).find("a name must be that of something beside it"),
            std::string::npos);
  folder_.write("saved/state.json", R"({"_data_files": []})");
  EXPECT_NE(refusal(11, {path("saved")}).find("must name a file"), std::string::npos);
  folder_.write("saved/state.json",
                R"({"_data_files": [{"filename": "a"}], "_indices_files": [1]})");
  EXPECT_NE(refusal(11, {path("saved")}).find("flatten_indices()"), std::string::npos);
  folder_.write("saved/dataset_dict.json", R"({"splits": ["train", "test"]})");
  EXPECT_EQ(refusal(10, {path("saved")}),
            path("saved") + " holds the splits of a data set; name one of them: " +
                path("saved/train") + ", " + path("saved/test"));
}

TEST_F(FindData, OptionsOfRowsNeedSuchFiles) {
  const auto check = [&](const std::string& name, const RowOptions& rows) {
    const std::vector<std::string> words = {folder_.write(name, "{}")};
    check_row_options(find_data(words, DataFormat::kAuto, rows), rows);
  };
  RowOptions columns;
  columns.columns.add("a=b");
  check("a.csv", columns);
  check("a.jsonl", columns);
  EXPECT_NE(testing::message_of<core::UserError>(10, [&] { check("a.bin", columns); })
                .find("--columns needs rows with columns"),
            std::string::npos);
  check("a.txt", {.sample_by = SampleBy::kLine});
  EXPECT_NE(testing::message_of<core::UserError>(
                10, [&] { check("a.jsonl", {.sample_by = SampleBy::kLine}); })
                .find("--sample_by says what of a .txt file"),
            std::string::npos);
}

}  // namespace
}  // namespace fm::data

// Which data a run holds in memory, and which it prepares on the disk.
#include "engine/run/run_data.h"

#include <gtest/gtest.h>

#include <fstream>

#include "comm/meet/world.h"
#include "core/check.h"
#include "engine/run/run_text.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

struct Opened {
  std::vector<std::int32_t> tokens, labels;  // of the first row
  std::int64_t samples = 0;
  std::int64_t held = 0;  // bytes in the account of data
  bool prepared = false;  // a folder of tokens was made
};

class RunData : public testing::Test {
 protected:
  RunData() : folder_(fs::path(testing::TempDir()) / "fm_run_data") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~RunData() override { fs::remove_all(folder_); }

  // Lines of the text until the file has `bytes`.
  std::string write(const std::string& line, std::int64_t bytes) const {
    const fs::path path = folder_ / "data.jsonl";
    std::ofstream out(path, std::ios::binary);
    for (std::int64_t at = 0; at < bytes; at += std::ssize(line)) out << line;
    return path.string();
  }

  Opened open(const std::string& path) const {
    Opened opened;
    comm::run_ranks(2, [&](comm::Communicator& world) {
      TrainOptions options;
      options.data_path = {path};
      options.max_seq_len = 4;
      options.output_dir = folder_ / "out";
      core::Ledger ledger;
      const auto rows = open_rows(options, 300, ledger, world, {}).training;
      if (world.rank() != 0) return;
      opened.tokens.resize(4);
      opened.labels.resize(4);
      rows->read(0, opened.tokens, opened.labels);
      opened.samples = rows->samples_per_epoch();
      opened.held = ledger.current(core::Account::kData).count();
    });
    opened.prepared = fs::exists(folder_ / "out" / "tokens");
    return opened;
  }

  fs::path folder_;
};

// 5 ids a line fill one row of 4 tokens each: every row is alike in any order.
const std::string kIdLine = R"({"input_ids": [11, 12, 13, 14, 15], "labels": [1, 2, -100, 4, 15]})"
                            "\n";
const std::string kTextLine = "{\"text\": \"" + std::string(999, 'a') + "\"}\n";

TEST_F(RunData, SmallFilesAreHeldInMemory) {
  const Opened opened = open(write(kIdLine, 10'000));
  EXPECT_FALSE(opened.prepared);
  EXPECT_GT(opened.held, 0);
  EXPECT_EQ(opened.tokens, (std::vector<std::int32_t>{11, 12, 13, 14}));
  EXPECT_EQ(opened.labels, (std::vector<std::int32_t>{2, -100, 4, 15}));
}

TEST_F(RunData, LargeFilesOfIdsAreMapped) {
  const Opened opened = open(write(kIdLine, kMostInMemory + 1));
  EXPECT_TRUE(opened.prepared);
  EXPECT_EQ(opened.held, 0);
  EXPECT_EQ(opened.tokens, (std::vector<std::int32_t>{11, 12, 13, 14}));
  EXPECT_EQ(opened.labels, (std::vector<std::int32_t>{2, -100, 4, 15}));
  EXPECT_EQ(opened.samples, kMostInMemory / std::ssize(kIdLine) + 1);
}

TEST_F(RunData, WithoutATokenThatIsTrainedIsRefused) {
  const std::string one =
      R"({"input_ids": [1, 2, 3, 4, 5], "labels": [-100, -100, -100, 4, -100]})";
  const std::string none =
      R"({"input_ids": [1, 2, 3, 4, 5], "labels": [-100, -100, -100, -100, -100]})";
  EXPECT_EQ(open(write(one + "\n", 1)).samples, 1);
  write(none + "\n" + one + "\n", 1);
  EXPECT_EQ(open((folder_ / "data.jsonl").string()).samples, 2);
  try {
    open(write(none + "\n", 1'000));
    ADD_FAILURE();
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kDataError);
    const std::string message = error.what();
    EXPECT_NE(message.find("training data must have tokens that are trained"), message.npos)
        << message;
  }
}

TEST_F(RunData, LargeFilesOfBytesAreMapped) {
  const Opened opened = open(write(kTextLine, kMostInMemory + 1));
  EXPECT_TRUE(opened.prepared);
  EXPECT_EQ(opened.held, 0);
  // 1,000 ids a document: rows of 5 ids begin and end with one.
  EXPECT_EQ(opened.tokens, (std::vector<std::int32_t>{'a', 'a', 'a', 'a'}));
  EXPECT_EQ(opened.samples, (kMostInMemory / std::ssize(kTextLine) + 1) * 200);
}

}  // namespace
}  // namespace fm::engine

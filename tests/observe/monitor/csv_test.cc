// csv_monitor's files, as DeepSpeed names and fills them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <vector>

#include "observe/monitor/monitor.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::monitor {
namespace {

using testing::file_content;
using testing::ScratchFolder;

TEST(Csv, ATagIsAFileWithAHeaderAndARowPerStep) {
  const ScratchFolder scratch;
  const auto csv = csv_in(scratch.path() / "out" / "job");
  EXPECT_EQ(csv->write(std::vector<Event>{{"Train/Samples/lr", 0.25, 64}, {"my tag", 1.0, 64}}),
            "");
  EXPECT_EQ(csv->write(std::vector<Event>{{"Train/Samples/lr", 0.1, 128}}), "");
  const auto folder = scratch.path() / "out" / "job";
  EXPECT_EQ(file_content(folder / "Train_Samples_lr.csv"), "step,lr\n64,0.25\n128,0.1\n");
  EXPECT_EQ(file_content(folder / "my_tag.csv"), "step,my tag\n64,1\n");
}

// DeepSpeed writes it once per start.
TEST(Csv, AResumeWritesNoSecondHeader) {
  const ScratchFolder scratch;
  for (const std::int64_t step : {1, 2}) {
    EXPECT_EQ(csv_in(scratch.path())->write(std::vector<Event>{{"a/b", 0.5, step}}), "");
  }
  EXPECT_EQ(file_content(scratch.path() / "a_b.csv"), "step,b\n1,0.5\n2,0.5\n");
}

TEST(Csv, NumbersReadBackAsTheyWere) {
  EXPECT_EQ(shortest(1.0 / 3.0), "0.3333333333333333");
  EXPECT_EQ(shortest(2e-5), "2e-05");
  EXPECT_EQ(shortest(std::nan("")), "nan");
}

// A file stands where the folder should be: so nobody can write there, root included.
TEST(Csv, AFolderThatCannotBeIsAReason) {
  const ScratchFolder scratch;
  const std::filesystem::path blocked = scratch.write("file", "x");
  const std::vector<Event> events = {{"a", 1.0, 1}};
  EXPECT_EQ(csv_in(blocked)->write(events), "Not a directory");
  EXPECT_EQ(tensorboard_in(blocked / "below")->write(events), "Not a directory");
}

// /dev/full takes nothing: "No space left on device".
TEST(AppendWhole, AFullDiskIsAReason) {
  EXPECT_EQ(append_whole("/dev/full", "head", "text"),
            "No space left on device, and its end is torn");
}

// A file may have 8 bytes: 4 of the second text fit.
TEST(AppendWhole, WhatDoesNotFitIsTakenBack) {
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch.path() / "file";
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_EQ(append_whole(file, "he", "ad"), "");
  const std::string problem = append_whole(file, "he", "12345");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(problem, "File too large");
  EXPECT_EQ(file_content(file), "head");
}

}  // namespace
}  // namespace fm::monitor

// Lines are whole, whatever happens to the process or the disk.
#include "engine/shown/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <functional>

#include "core/check.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class MetricsFileTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove(path_); }
  void TearDown() override { fs::remove(path_); }

  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const fs::path path_ = fs::path(testing::TempDir()) / "fm_metrics.jsonl";
};

TEST_F(MetricsFileTest, AppendsBehindWholeLines) {
  write("a\nb\n");
  MetricsFile file(path_);
  EXPECT_EQ(file.append("c"), "");
  EXPECT_EQ(content(), "a\nb\nc\n");
}

TEST_F(MetricsFileTest, CutsATornEndOfAnyLength) {
  for (const std::size_t torn : {std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                 std::size_t{4097}, std::size_t{10'000}}) {
    write("a\n" + std::string(torn, 'x'));
    EXPECT_EQ(MetricsFile(path_).append("b"), "");
    EXPECT_EQ(content(), "a\nb\n") << torn;
    write(std::string(torn, 'x'));
    EXPECT_EQ(MetricsFile(path_).append("b"), "");
    EXPECT_EQ(content(), "b\n") << torn;
  }
}

TEST_F(MetricsFileTest, GoesWhereItsNameLeads) {
  MetricsFile file(path_);
  ASSERT_EQ(file.append("one"), "");
  fs::remove(path_);
  EXPECT_EQ(file.append("two"), "");
  EXPECT_EQ(content(), "two\n");
  write("of another\n");  // the same file: nothing but its text changed
  EXPECT_EQ(file.append("three"), "");
  EXPECT_EQ(content(), "of another\nthree\n");
}

TEST_F(MetricsFileTest, IsPutOnTheDiskByWhoeverComesLater) {
  std::function<std::string()> sync;
  {
    MetricsFile file(path_);
    ASSERT_EQ(file.append("one"), "");
    sync = file.sync_later();
    fs::remove(path_);
    ASSERT_EQ(file.append("two"), "");  // the descriptor of before is closed
  }
  EXPECT_EQ(sync(), "");
  EXPECT_EQ(MetricsFile("/dev/null").sync_later()(), "") << "a device has nothing to sync";
}

TEST_F(MetricsFileTest, InADeletedFolderSaysSo) {
  const fs::path folder = fs::path(testing::TempDir()) / "fm_metrics";
  fs::create_directory(folder);
  MetricsFile file(folder / "metrics.jsonl");
  ASSERT_EQ(file.append("one"), "");
  fs::remove_all(folder);
  EXPECT_EQ(file.append("two"), "No such file or directory");
  fs::create_directory(folder);
  EXPECT_EQ(file.append("three"), "");
  fs::remove_all(folder);
}

TEST_F(MetricsFileTest, KeepsTheLastRowOfEveryStepUntilTheGivenOne) {
  const fs::path replaced = fs::path(testing::TempDir()) / "fm_metrics.replaced.jsonl";
  fs::remove(replaced);
  const auto row = [](int step, const char* text) {
    return core::concat("{\"step\": ", step, ", \"t\": \"", text, "\"}\n");
  };
  write(row(1, "a") + row(2, "a") + "{\"step\": x}\n" + row(5, "a") + row(2, "b") + row(6, "b"));
  MetricsFile file(path_);
  const KeptRows done = file.keep_until(5);
  EXPECT_EQ(done.rows, 3);
  EXPECT_EQ(done.cut, 2);
  EXPECT_EQ(done.missing, "3 to 4");
  EXPECT_EQ(done.problem, "");
  EXPECT_EQ(content(), row(1, "a") + "{\"step\": x}\n" + row(5, "a") + row(2, "b"));
  EXPECT_EQ(file.append("next"), "");
  EXPECT_EQ(content(), row(1, "a") + "{\"step\": x}\n" + row(5, "a") + row(2, "b") + "next\n");

  EXPECT_EQ(file.keep_until(1).cut, 2);  // moved to the end of the same file
  EXPECT_EQ(file.sync_later()(), "");
  EXPECT_EQ(content(), row(1, "a") + "{\"step\": x}\nnext\n");
  std::ifstream text(replaced);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(text), {}),
            row(2, "a") + row(6, "b") + row(5, "a") + row(2, "b"));
  fs::remove(replaced);
}

// A run of weeks has millions of rows, of which a start looks at the last ones.
TEST_F(MetricsFileTest, HandsOutTheNewestStartAndItsLastRows) {
  std::string before = "{\"start\": 1}\n{\"step\": 1}\n";
  std::string rows;
  for (int step = 2; step <= 200; ++step) {
    const std::string row = core::concat("{\"step\": ", step, "}\n");
    before += step == 2 ? "{\"start\": 2}\n" + row : row;
    if (step > 180 - 51 && step <= 180) rows += row;
    if (step == 150) before += "{\"evaluation\": 1}\n";
  }
  write(before);
  EXPECT_EQ(MetricsFile(path_).keep_until(180).last_start, "{\"start\": 2}\n" + rows);
  EXPECT_TRUE(content().ends_with("{\"step\": 180}\n")) << content();
  EXPECT_EQ(MetricsFile(path_).keep_until(3).last_start,
            "{\"start\": 2}\n{\"step\": 2}\n{\"step\": 3}\n");
  EXPECT_TRUE(content().ends_with("{\"step\": 3}\n{\"evaluation\": 1}\n")) << content();
  fs::remove(fs::path(testing::TempDir()) / "fm_metrics.replaced.jsonl");
}

TEST_F(MetricsFileTest, NamesMissingRowsAsRanges) {
  write("{\"step\": 2}\n{\"step\": 6, \"a\": 1}\n{\"step\": 7}\n");
  EXPECT_EQ(MetricsFile(path_).keep_until(9).missing, "1, 3 to 5, 8 to 9");
  EXPECT_EQ(MetricsFile(path_).keep_until(7).missing, "1, 3 to 5");
  EXPECT_EQ(content().size(), 44U);  // nothing was cut
}

// The limit on file sizes lets the first bytes through, as a disk that fills up does.
TEST_F(MetricsFileTest, TakesBackALineThatIsNotWhole) {
  MetricsFile file(path_);
  ASSERT_EQ(file.append("one"), "");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 10, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string problem = file.append("0123456789abcdef");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(problem, "");
  EXPECT_EQ(content(), "one\n");
  EXPECT_EQ(file.append("two"), "");
  EXPECT_EQ(content(), "one\ntwo\n");
}

}  // namespace
}  // namespace fm::engine

// Lines are whole, whatever happens to the process or the disk.
#include "engine/metrics_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

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

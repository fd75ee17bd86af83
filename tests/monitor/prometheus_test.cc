// The text format of Prometheus (prometheus.io, "Exposition formats").
#include "monitor/prometheus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "monitor/text_files.h"
#include "tests/data/scratch_folder.h"

namespace fm::monitor {
namespace {

using testing::file_content;
using testing::ScratchFolder;

TEST(Prometheus, AMetricHasHelpTypeAndALabel) {
  const std::vector<Metric> metrics = {
      {"fmengine_loss", MetricType::kGauge, "Mean loss.", 2.5},
      {"fmengine_samples_total", MetricType::kCounter, "Samples.", 64.0}};
  EXPECT_EQ(prometheus_text("./output", metrics),
            "# HELP fmengine_loss Mean loss.\n"
            "# TYPE fmengine_loss gauge\n"
            "fmengine_loss{run=\"./output\"} 2.5\n"
            "# HELP fmengine_samples_total Samples.\n"
            "# TYPE fmengine_samples_total counter\n"
            "fmengine_samples_total{run=\"./output\"} 64\n");
}

TEST(Prometheus, LabelsAreEscapedAndNumbersThatAreNotFiniteNamed) {
  const auto value_line = [](const std::string& run, double value) {
    const std::string text =
        prometheus_text(run, std::vector<Metric>{{.name = "a", .help = "h", .value = value}});
    return text.substr(text.find("a{"));
  };
  EXPECT_EQ(value_line("a\\b\"c\nd", 1.0), "a{run=\"a\\\\b\\\"c\\nd\"} 1\n");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(value_line("r", std::nan("")), "a{run=\"r\"} NaN\n");
  EXPECT_EQ(value_line("r", kInfinity), "a{run=\"r\"} +Inf\n");
  EXPECT_EQ(value_line("r", -kInfinity), "a{run=\"r\"} -Inf\n");
}

TEST(ReplaceWhole, TheFileIsAnotherOneAndNothingElseStays) {
  const ScratchFolder scratch;
  const std::filesystem::path file = scratch.write("run.prom", "old");
  std::ifstream reader(file);  // began before the replacement
  EXPECT_EQ(replace_whole(file, "new"), "");
  EXPECT_EQ(file_content(file), "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(ReplaceWhole, AFailureLeavesTheOldFile) {
  const ScratchFolder scratch;
  EXPECT_EQ(replace_whole(scratch.path() / "none" / "run.prom", "x"), "No such file or directory");
  std::filesystem::create_directories(scratch.path() / "taken" / "below");
  EXPECT_NE(replace_whole(scratch.path() / "taken", "x"), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

}  // namespace
}  // namespace fm::monitor

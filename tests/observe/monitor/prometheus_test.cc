// The text format of Prometheus (prometheus.io, "Exposition formats").
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "observe/monitor/monitor.h"

namespace fm::monitor {
namespace {

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

}  // namespace
}  // namespace fm::monitor

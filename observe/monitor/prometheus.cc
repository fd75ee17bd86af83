#include "observe/monitor/prometheus.h"

#include <cmath>

#include "core/check.h"
#include "observe/monitor/text_files.h"

namespace fm::monitor {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') out += '\\';
    out += letter == '\n' ? "\\n" : std::string(1, letter);
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return shortest(value);
}

}  // namespace

std::string prometheus_text(const std::string& run, std::span<const Metric> metrics) {
  std::string out;
  for (const Metric& metric : metrics) {
    const char* const type = metric.type == MetricType::kGauge ? "gauge" : "counter";
    out += core::concat("# HELP ", metric.name, " ", metric.help, "\n# TYPE ", metric.name, " ",
                        type, "\n", metric.name, "{run=\"", escaped(run), "\"} ",
                        number(metric.value), "\n");
  }
  return out;
}

}  // namespace fm::monitor

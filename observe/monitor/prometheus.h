// A file for the textfile collector of Prometheus' node_exporter (prometheus.io, "Exposition
// formats"): the newest values of a run, no port and no server.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fm::monitor {

enum class MetricType : std::uint8_t { kGauge, kCounter };

struct Metric {
  std::string name;
  MetricType type = MetricType::kGauge;
  std::string help;
  double value = 0.0;
};

// Every metric has the label run="`run`".
std::string prometheus_text(const std::string& run, std::span<const Metric> metrics);

}  // namespace fm::monitor

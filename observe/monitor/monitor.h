// Where the numbers of a run go, for programs that draw curves: TensorBoard, CSV, Prometheus.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fm::monitor {

struct Event {
  std::string tag;  // "Train/Samples/lr"
  double value = 0.0;
  std::int64_t step = 0;  // samples of the run so far: the x axis of DeepSpeed's monitors
};

// A folder that gets the events of a step, once per step, from one rank.
//
// Invariant: files hold whole events only: what could not be written whole is taken back.
// Thread:    one.
// Lifetime:  no file stays open between two writes.
class Monitor {
 public:
  virtual ~Monitor() = default;
  // Returns the reason when they could not be written, "" otherwise; a later write tries again.
  virtual std::string write(std::span<const Event> events) = 0;
};

// An event file of TensorBoard per object (observe/monitor/tensorboard.h).
std::unique_ptr<Monitor> tensorboard_in(const std::filesystem::path& folder);
// A file per tag, "/" and " " in its name replaced by "_": rows "step,value" below one header.
std::unique_ptr<Monitor> csv_in(const std::filesystem::path& folder);

// A file for the textfile collector of Prometheus' node_exporter (prometheus.io, "Exposition
// formats"): the newest values of a run, no port and no server.

enum class MetricType : std::uint8_t { kGauge, kCounter };

struct Metric {
  std::string name;
  MetricType type = MetricType::kGauge;
  std::string help;
  double value = 0.0;
};

// Every metric has the label run="`run`".
std::string prometheus_text(const std::string& run, std::span<const Metric> metrics);

// How monitors write files and numbers. A write returns the reason when it fails, "" otherwise;
// then the file is as it was.

// Appends `text`, behind `head` where the file is new or empty; makes the folders that it needs.
std::string append_whole(const std::filesystem::path& file, std::string_view head,
                         std::string_view text);

// The shortest text that reads back as the same number.
std::string shortest(double value);

}  // namespace fm::monitor

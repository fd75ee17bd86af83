// Where the numbers of a run go, for programs that draw curves: DeepSpeed's monitors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

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

}  // namespace fm::monitor

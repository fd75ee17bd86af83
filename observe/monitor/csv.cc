// DeepSpeed's csv_monitor (deepspeed/monitor/csv_monitor.py).
#include <algorithm>

#include "core/check.h"
#include "observe/monitor/monitor.h"
#include "observe/monitor/text_files.h"

namespace fm::monitor {
namespace {

std::string file_name(std::string tag) {
  std::ranges::replace(tag, '/', '_');
  std::ranges::replace(tag, ' ', '_');
  return tag + ".csv";
}

class Csv : public Monitor {
 public:
  explicit Csv(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::string write(std::span<const Event> events) override {
    for (const Event& event : events) {
      const std::string last_part = event.tag.substr(event.tag.rfind('/') + 1);
      std::string problem =
          append_whole(folder_ / file_name(event.tag), core::concat("step,", last_part, "\n"),
                       core::concat(event.step, ",", shortest(event.value), "\n"));
      if (!problem.empty()) return problem;
    }
    return "";
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace

std::unique_ptr<Monitor> csv_in(const std::filesystem::path& folder) {
  return std::make_unique<Csv>(folder);
}

}  // namespace fm::monitor

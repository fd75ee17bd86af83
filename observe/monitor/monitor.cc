#include "observe/monitor/monitor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

#include "core/check.h"

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

// A label's text and a value, in Prometheus' form.
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

// False and errno when it fails.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

std::unique_ptr<Monitor> csv_in(const std::filesystem::path& folder) {
  return std::make_unique<Csv>(folder);
}

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

std::string append_whole(const std::filesystem::path& file, std::string_view head,
                         std::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return error.message();
  // A pipe that nobody reads is a reason, not a wait.
  const int fd =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
  if (fd < 0) return std::strerror(errno);
  std::string problem;
  struct stat before {};
  if (fstat(fd, &before) != 0 || (before.st_size == 0 && !write_all(fd, head)) ||
      !write_all(fd, text)) {
    problem = std::strerror(errno);
    if (ftruncate(fd, before.st_size) != 0) problem += ", and its end is torn";
  }
  ::close(fd);
  return problem;
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.begin(), std::to_chars(text.begin(), text.end(), value).ptr};
}

}  // namespace fm::monitor

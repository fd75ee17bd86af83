#include "observe/report/metrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"
#include "observe/report/metrics_row.h"

namespace fm::report {
namespace {

using nlohmann::json;

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{16} << 20;  // above what any line holds

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, json::error_handler_t::replace);
}

double number_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>()
                                                     : std::numeric_limits<double>::quiet_NaN();
}

// 0 where there is none, or none that a step or a number of ranks may be.
std::int64_t count_in(const json& object, const char* name) {
  const double number = number_in(object, name);
  return number >= 0 && number < 1e15 ? static_cast<std::int64_t>(number) : 0;
}

Start start_of(const json& object) {
  Start start{.time = number_in(object, "time"),
              .version = object.contains("version") ? text_of(object["version"]) : "",
              .from_step = count_in(object, "from_step"),
              .ranks = count_in(object, "ranks"),
              .facts = {}};
  const auto facts = object.find("facts");
  if (facts == object.end() || !facts->is_object()) return start;
  for (const auto& [name, value] : facts->items()) start.facts.emplace_back(name, text_of(value));
  return start;
}

class MetricsReader {
 public:
  void add(std::string_view piece) {
    for (std::size_t end = piece.find('\n'); end != piece.npos; end = piece.find('\n')) {
      if (begun_.empty()) {
        take(piece.substr(0, end));
      } else {
        take(begun_.append(piece.substr(0, end)));
        begun_.clear();
      }
      piece.remove_prefix(end + 1);
    }
    // One letter more than the longest line is enough to refuse it.
    begun_ += piece.substr(0, kLongestLine + 1 - std::min(begun_.size(), kLongestLine + 1));
  }

  Metrics finish() {
    if (!begun_.empty()) take(begun_);
    keep_last_of_each_step();
    found_.phases = reader_.phases();
    found_.phases.resize(found_.phase_ms.size());  // names in damaged lines alone have no column
    return std::move(found_);
  }

 private:
  void take(std::string_view line) {
    ++lines_;
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    if (line.size() > kLongestLine) return damaged();
    if (line.starts_with("{\"step\":")) {
      return reader_.read(line, row_) ? add_row() : damaged();
    }
    const json other = json::parse(core::is_shallow(line) ? line : "", nullptr, false);
    if (!other.is_object()) return damaged();
    const auto start = other.find("start");
    if (start != other.end() && start->is_object()) found_.starts.push_back(start_of(*start));
  }

  void damaged() {
    if (found_.damaged_lines++ == 0) found_.first_damaged_line = lines_;
  }

  void add_row() {
    for (std::size_t at = 0; at < kFieldCount; ++at) {
      found_.columns[at].push_back(row_.values[at]);
    }
    const std::size_t phases = reader_.phases().size();
    const std::size_t before = found_.columns[0].size() - 1;
    while (found_.phase_ms.size() < phases) found_.phase_ms.emplace_back(before, 0.0F);
    for (std::size_t at = 0; at < phases; ++at) found_.phase_ms[at].push_back(row_.phase_ms[at]);
  }

  // A resume that could not cut the file back leaves rows of steps that were done again.
  void keep_last_of_each_step() {
    const Column& steps = found_.columns[0];
    const auto not_after = [](double before, double step) { return before >= step; };
    if (std::adjacent_find(steps.begin(), steps.end(), not_after) == steps.end()) return;
    std::vector<std::size_t> order(steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return steps[a] < steps[b]; });
    std::vector<std::size_t> kept;
    for (std::size_t at = 0; at < order.size(); ++at) {
      const bool last = at + 1 == order.size() || steps[order[at + 1]] != steps[order[at]];
      if (last) kept.push_back(order[at]);
    }
    found_.replaced_rows = static_cast<std::int64_t>(order.size() - kept.size());
    for (Column& column : found_.columns) column = picked(column, kept);
    for (std::vector<float>& column : found_.phase_ms) column = picked(column, kept);
  }

  template <class T>
  static std::vector<T> picked(const std::vector<T>& from, const std::vector<std::size_t>& rows) {
    std::vector<T> to;
    to.reserve(rows.size());
    for (const std::size_t row : rows) to.push_back(from[row]);
    return to;
  }

  RowReader reader_;
  Row row_{};
  Metrics found_;
  std::string begun_;  // of a line whose end is in a later piece
  std::int64_t lines_ = 0;
};

}  // namespace

Metrics parse_metrics(std::string_view text) {
  MetricsReader reader;
  reader.add(text);
  return reader.finish();
}

Metrics read_metrics(const std::string& path) {
  struct stat opened {};
  ::close(core::open_regular(path, opened));
  std::ifstream file(path, std::ios::binary);
  MetricsReader reader;
  std::string piece(kPiece, '\0');
  for (auto left = static_cast<std::size_t>(opened.st_size); left > 0 && file;) {
    file.read(piece.data(), static_cast<std::streamsize>(std::min(left, kPiece)));
    const auto got = static_cast<std::size_t>(file.gcount());
    reader.add(std::string_view(piece).substr(0, got));
    left -= got;
  }
  FM_DATA_CHECK(!file.bad(), "the file must be readable; check the disk (", path, ")");
  return reader.finish();
}

}  // namespace fm::report

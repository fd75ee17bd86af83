#include "observe/report/metrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

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
  const auto lines = object.find("lines");
  if (lines != object.end() && lines->is_array()) {
    for (const json& line : *lines) {
      const bool pair = line.is_array() && line.size() == 2;
      if (pair) start.lines.emplace_back(text_of(line[0]), text_of(line[1]));
    }
  }
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

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostSteps = 9007199254740992.0;  // whole numbers up to here are exact

constexpr std::array<std::string_view, kFieldCount> kNames = {
    "step",           "samples",           "epoch",      "loss",      "lr",      "grad_norm",
    "tokens",         "tokens_per_second", "gflops",     "step_time", "skipped", "loss_scale",
    "mem_peak_bytes", "eval_loss",         "perplexity", "time"};

// `expected`: where the name probably stands. kFieldCount: unknown.
std::size_t field_at(std::string_view name, std::size_t expected) {
  for (std::size_t tried = 0; tried < kFieldCount; ++tried) {
    const std::size_t at = (expected + tried) % kFieldCount;
    if (kNames[at] == name) return at;
  }
  return kFieldCount;
}

void clear(Row& row) {
  row.values.fill(kNone);
  row.phase_ms.fill(0);
}

bool has_step(const Row& row) {
  const double step = row.values[0];
  return step >= 0 && step <= kMostSteps && step == std::floor(step);
}

// Time is finite and not negative; a damaged file may say anything.
float ms_of(double number) {
  return number > 0 ? static_cast<float>(std::min(number, 1e30)) : 0.0F;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// JSON without escapes, letters beyond ASCII and arrays. What is not plain is refused, not judged.
class PlainJson {
 public:
  enum class ValueType : std::uint8_t { kNothing, kNumber, kText };

  explicit PlainJson(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool ended() { return skip_space(), at_ == end_; }
  bool take(char letter) {
    skip_space();
    if (at_ == end_ || *at_ != letter) return false;
    return ++at_, true;
  }
  // Calls `on_name(name)` where a value stands, which must read it.
  template <class OnName>
  bool object(const OnName& on_name) {
    if (!take('{')) return false;
    if (take('}')) return true;
    std::string_view name;
    do {
      skip_space();
      if (!text(name) || !take(':') || !on_name(name)) return false;
    } while (take(','));
    return take('}');
  }
  // null is NaN, true is 1.
  ValueType value(double& number) {
    skip_space();
    std::string_view unused;
    if (at_ != end_ && *at_ == '"') return text(unused) ? ValueType::kText : ValueType::kNothing;
    const bool known = word("true", 1, number) || word("false", 0, number) ||
                       word("null", kNone, number) || digits(number);
    return known ? ValueType::kNumber : ValueType::kNothing;
  }

 private:
  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool text(std::string_view& found) {
    if (at_ == end_ || *at_ != '"') return false;
    const char* const begin = ++at_;
    while (at_ != end_ && *at_ != '"') {
      if (*at_ < 0x20 || *at_ == 0x7F || *at_ == '\\') return false;  // char may be signed
      ++at_;
    }
    if (at_ == end_) return false;
    found = {begin, static_cast<std::size_t>(at_ - begin)};
    return ++at_, true;
  }
  bool word(std::string_view wanted, double meaning, double& number) {
    if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(wanted)) {
      return false;
    }
    at_ += wanted.size();
    number = meaning;
    return true;
  }
  // from_chars takes more than JSON allows: 01, 1., inf.
  bool digits(double& number) {
    const char* const first = at_ + (at_ != end_ && *at_ == '-' ? 1 : 0);
    if (first == end_ || !is_digit(*first)) return false;
    if (*first == '0' && first + 1 != end_ && is_digit(first[1])) return false;
    const auto [stop, error] = std::from_chars(at_, end_, number);
    if (error != std::errc()) return false;
    const char* const point = std::find(first, stop, '.');
    if (point != stop && (point + 1 == stop || !is_digit(point[1]))) return false;
    at_ = stop;
    return true;
  }

  const char* at_;
  const char* end_;
};

std::optional<double> number_of(const json& value) {
  if (value.is_null()) return kNone;
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

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

std::size_t RowReader::phase_at(std::string_view name) {
  const auto found = std::find(phases_.begin(), phases_.end(), name);
  if (found != phases_.end()) return static_cast<std::size_t>(found - phases_.begin());
  if (phases_.size() > kMostPhases) return kMostPhases;
  phases_.emplace_back(phases_.size() == kMostPhases ? "further" : name);
  return phases_.size() - 1;
}

bool RowReader::read(std::string_view line, Row& row) {
  return read_plain(line, row) || read_any(line, row);
}

bool RowReader::read_plain(std::string_view line, Row& row) {
  clear(row);
  PlainJson plain(line);
  std::size_t expected = 0;
  const auto on_phase = [&](std::string_view name) {
    double ms = 0;
    if (plain.value(ms) != PlainJson::ValueType::kNumber) return false;
    row.phase_ms[phase_at(name)] = ms_of(ms);
    return true;
  };
  const auto on_field = [&](std::string_view name) {
    if (name == "phases") {
      row.phase_ms.fill(0);
      return plain.object(on_phase);
    }
    double number = 0;
    const PlainJson::ValueType kind = plain.value(number);
    const std::size_t at = field_at(name, expected);
    if (at == kFieldCount) return kind != PlainJson::ValueType::kNothing;
    row.values[at] = number;
    expected = at + 1;
    return kind == PlainJson::ValueType::kNumber;
  };
  return plain.object(on_field) && plain.ended() && has_step(row);
}

bool RowReader::read_any(std::string_view line, Row& row) {
  clear(row);
  const json parsed = json::parse(core::is_shallow(line) ? line : "", nullptr, false);
  if (!parsed.is_object()) return false;
  for (std::size_t at = 0; at < kFieldCount; ++at) {
    const auto found = parsed.find(kNames[at]);
    if (found == parsed.end()) continue;
    const std::optional<double> number = number_of(*found);
    if (!number) return false;
    row.values[at] = *number;
  }
  const auto phases = parsed.find("phases");
  if (phases == parsed.end()) return has_step(row);
  if (!phases->is_object()) return false;
  for (const auto& [name, value] : phases->items()) {
    const std::optional<double> ms = number_of(value);
    if (!ms) return false;
    row.phase_ms[phase_at(name)] = ms_of(*ms);
  }
  return has_step(row);
}

}  // namespace fm::report

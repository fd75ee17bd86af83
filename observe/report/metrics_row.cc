#include "observe/report/metrics_row.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/text.h"

namespace fm::report {
namespace {

using nlohmann::json;

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

#include "core/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

namespace fm::core {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// One digit after the point, so what rounds to 1000.0 of a unit is 1.0 of the next one.
constexpr double kRoundsUp = 0.99995;

struct Magnitude {
  double size;
  const char* name;
};

// `units` from the largest to 1e3; "" below 1,000.
std::string scaled(double value, std::span<const Magnitude> units) {
  for (const Magnitude& unit : units) {
    if (value < (unit.size > 1e3 ? kRoundsUp * unit.size : unit.size)) continue;
    char text[64];
    std::snprintf(text, sizeof(text), "%.1f %s", value / unit.size, unit.name);
    return text;
  }
  return "";
}

constexpr Magnitude kByteUnits[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}};
constexpr Magnitude kCountUnits[] = {{1e9, "B"}, {1e6, "M"}, {1e3, "k"}};

// The first of the nearest, where no more than `most` letters differ in any case.
std::string closest(std::string_view word, std::span<const std::string> candidates,
                    std::size_t most) {
  std::string best;
  std::size_t best_distance = most + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(lower(word), lower(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

// As from_chars reads it: without "+", and without the "_" that Python takes between two digits.
std::string plain_digits(std::string_view word) {
  const auto is_digit = [&](std::size_t at) {
    return at < word.size() && word[at] >= '0' && word[at] <= '9';
  };
  std::string plain;
  for (std::size_t at = 0; at < word.size(); ++at) {
    const bool sign =
        at == 0 && word[at] == '+' && (is_digit(1) || word.substr(1).starts_with('.'));
    const bool between = word[at] == '_' && at > 0 && is_digit(at - 1) && is_digit(at + 1);
    if (!sign && !between) plain += word[at];
  }
  return plain;
}

template <class T>
std::optional<T> read(const std::string& plain) {
  T value = 0;
  const char* const end = plain.data() + plain.size();
  const auto [stop, error] = std::from_chars(plain.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != parts.data()) out += separator;
    out += part;
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& letter : out)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return out;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 300;
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kMost;
  while (end > kMost - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

bool is_shallow(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char byte = json[at];
    if (byte == '"') in_text = !in_text;
    if (in_text) {
      if (byte == '\\') ++at;
      continue;
    }
    if (byte == '[' || byte == '{') ++depth;
    if (byte == ']' || byte == '}') --depth;
    if (depth > kMostBrackets) return false;
  }
  return true;
}

std::string human(Bytes bytes) {
  const std::string text = scaled(static_cast<double>(bytes.count()), kByteUnits);
  return text.empty() ? std::to_string(bytes.count()) + " B" : text;
}

std::string human_count(double count) {
  const std::string text = scaled(count, kCountUnits);
  return text.empty() ? std::to_string(static_cast<std::int64_t>(count)) : text;
}

std::string human_duration(double seconds) {
  const auto format = [](const char* pattern, auto... values) {
    char text[64];
    std::snprintf(text, sizeof(text), pattern, values...);
    return std::string(text);
  };
  if (seconds < 0.0095) return format("%.2gms", 1e3 * seconds);
  if (seconds < 9.95) return format(seconds < 0.95 ? "%.2fs" : "%.1fs", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 60) return format("%llds", whole);
  if (whole < 3600) return format("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86'400) return format("%lldh%02lldm", whole / 3600, whole % 3600 / 60);
  return format("%lldd%02lldh", whole / 86'400, whole % 86'400 / 3600);
}

std::string grouped(std::string digits) {
  const int first = digits.starts_with('-') ? 1 : 0;
  for (int at = static_cast<int>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  return closest(word, candidates, std::max<std::size_t>(1, word.size() / 3));
}

std::string misspelt(std::string_view word, std::span<const std::string> candidates) {
  return closest(word, candidates, std::min<std::size_t>(2, word.size() / 5));
}

std::optional<double> number_of(std::string_view word) {
  const std::string plain = plain_digits(word);
  const std::size_t first = plain.starts_with('-') ? 1 : 0;
  const std::size_t digit = first + (plain.substr(first).starts_with('.') ? 1 : 0);
  if (digit >= plain.size() || plain[digit] < '0' || plain[digit] > '9') return std::nullopt;
  return read<double>(plain);
}

std::optional<std::int64_t> integer_of(std::string_view word) {
  return read<std::int64_t>(plain_digits(word));
}

}  // namespace fm::core

#include "core/number_word.h"

#include <charconv>
#include <string>

namespace fm::core {
namespace {

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

#include "engine/plan/device_cards.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/text.h"

namespace fm::engine {
namespace {

constexpr double kTera = 1e12;
constexpr core::Bytes gigabytes(std::int64_t count) { return core::Bytes(count * 1'000'000'000); }

// Peaks: NVIDIA's data sheets. Products: stas00/ml-engineering, compute/accelerator (best over
// shapes); where it has none, 0.8 of the peak. A row with more words stands before those that have
// some of them.
constexpr CardRates kCards[] = {
    {"GB200", 2500 * kTera, 2000 * kTera, 75 * kTera, gigabytes(186)},
    {"B200", 2250 * kTera, 1745 * kTera, 75 * kTera, gigabytes(180)},
    {"GH200 144GB", 989 * kTera, 792 * kTera, 50 * kTera, gigabytes(144)},
    {"GH200", 989 * kTera, 792 * kTera, 50 * kTera, gigabytes(96)},
    {"H200 NVL", 835 * kTera, 668 * kTera, 45 * kTera, gigabytes(141)},
    {"H200", 989 * kTera, 794 * kTera, 50 * kTera, gigabytes(141)},
    {"H100 PCIe", 756 * kTera, 605 * kTera, 38 * kTera, gigabytes(80)},
    {"H100 NVL", 835 * kTera, 668 * kTera, 45 * kTera, gigabytes(94)},
    {"H100", 989 * kTera, 792 * kTera, 50 * kTera, gigabytes(80)},
    {"A100", 312 * kTera, 271 * kTera, 18 * kTera, gigabytes(80)},
    {"A30", 165 * kTera, 132 * kTera, 8 * kTera, gigabytes(24)},
    {"L40S", 362 * kTera, 290 * kTera, 70 * kTera, gigabytes(48)},
    {"L4", 121 * kTera, 97 * kTera, 24 * kTera, gigabytes(24)},
    {"A40", 150 * kTera, 120 * kTera, 30 * kTera, gigabytes(48)},
    {"A10G", 70 * kTera, 56 * kTera, 28 * kTera, gigabytes(24)},
    {"A10", 125 * kTera, 100 * kTera, 25 * kTera, gigabytes(24)},
    {"RTX A6000", 155 * kTera, 124 * kTera, 31 * kTera, gigabytes(48)},
    {"RTX 5090", 210 * kTera, 168 * kTera, 80 * kTera, gigabytes(32)},
    {"RTX 4090", 165 * kTera, 132 * kTera, 65 * kTera, gigabytes(24)},
    {"RTX 3090", 71 * kTera, 57 * kTera, 28 * kTera, gigabytes(24)},
};

// "80" of "80gb" and "80g".
std::optional<std::int64_t> gigabytes_in(std::string_view word) {
  if (word.ends_with('b')) word.remove_suffix(1);
  if (!word.ends_with('g')) return std::nullopt;
  word.remove_suffix(1);
  const auto count = core::integer_of(word);
  return count && *count > 0 && *count < 10'000 ? count : std::nullopt;
}

// "NVIDIA A100-SXM4-40GB": nvidia, a100, sxm4, 40gb. Drivers say 144G where others say 144GB.
std::vector<std::string> words_of(std::string_view name) {
  std::string text = core::lower(name);
  std::ranges::replace(text, '-', ' ');
  std::vector<std::string> words = core::split(text, ' ');
  for (std::string& word : words) {
    if (const auto count = gigabytes_in(word)) word = core::concat(*count, "gb");
  }
  return words;
}

// What the name says; those of GH200 and GB200 may say what their CPU has.
core::Bytes memory_of(const CardRates& row, const std::vector<std::string>& words) {
  if (row.name.starts_with('G')) return row.memory;
  for (const std::string& word : words) {
    if (const auto count = gigabytes_in(word); count) return gigabytes(*count);
  }
  return row.memory;
}

}  // namespace

std::optional<CardRates> card_rates(std::string_view card) {
  const std::vector<std::string> words = words_of(card);
  for (const CardRates& each : kCards) {
    const bool fits = std::ranges::all_of(words_of(each.name), [&](const std::string& word) {
      return std::ranges::find(words, word) != words.end();
    });
    if (!fits) continue;
    CardRates rates = each;
    rates.memory = memory_of(each, words);
    return rates;
  }
  return std::nullopt;
}

std::string_view known_cards() {
  static const std::string kNames = [] {
    std::vector<std::string> names;
    for (const CardRates& each : kCards) names.emplace_back(each.name);
    return core::join(names, ", ");
  }();
  return kNames;
}

}  // namespace fm::engine

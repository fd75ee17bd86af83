#include "engine/plan/device_cards.h"

#include <string>

#include "core/text.h"

namespace fm::engine {
namespace {

constexpr double kTera = 1e12;
constexpr core::Bytes gigabytes(std::int64_t count) { return core::Bytes(count * 1'000'000'000); }

// Peaks: NVIDIA's data sheets. Products: stas00/ml-engineering, compute/accelerator (best over
// shapes); where it has none, 0.8 of the peak.
constexpr CardRates kCards[] = {
    {"B200", 2250 * kTera, 1745 * kTera, 75 * kTera, gigabytes(180)},
    {"H200", 989 * kTera, 794 * kTera, 50 * kTera, gigabytes(141)},
    {"H100", 989 * kTera, 792 * kTera, 50 * kTera, gigabytes(80)},
    {"A100", 312 * kTera, 271 * kTera, 18 * kTera, gigabytes(80)},
    {"L40S", 362 * kTera, 290 * kTera, 70 * kTera, gigabytes(48)},
    {"A40", 150 * kTera, 120 * kTera, 30 * kTera, gigabytes(48)},
    {"RTX 5090", 210 * kTera, 168 * kTera, 80 * kTera, gigabytes(32)},
    {"RTX 4090", 165 * kTera, 132 * kTera, 65 * kTera, gigabytes(24)},
    {"RTX 3090", 71 * kTera, 57 * kTera, 28 * kTera, gigabytes(24)},
};

}  // namespace

std::optional<CardRates> card_rates(std::string_view card) {
  for (const CardRates& each : kCards) {
    if (card.find(each.name) != std::string_view::npos) return each;
  }
  return std::nullopt;
}

std::optional<CardRates> card_with(core::Bytes memory) {
  for (const CardRates& each : kCards) {
    const double times =
        static_cast<double>(memory.count()) / static_cast<double>(each.memory.count());
    if (times > 0.95 && times < 1.08) return each;
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

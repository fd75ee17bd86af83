#include "observe/report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "observe/report/numbers.h"

namespace fm::report {
namespace {

constexpr double kFarthest = 1e300;    // so that differences stay finite
constexpr double kNarrowest = 1e-9;    // of the size of the values; below, digits would run out
constexpr double kRoom = 0.06;         // beside the values, of their span
constexpr double kDecadesOfFives = 3;  // up to so many, 2 and 5 times a power of ten are ticks too

struct Magnitude {
  double size;
  const char* name;
};
constexpr std::array<Magnitude, 4> kUnits = {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};

double nice_step(double rough) {
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= rough * (1 - 1e-9)) return times * power;
  }
  return 10 * power;
}

// Digits behind the point that a multiple of `step` needs.
int decimals_of(double step) {
  return std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
}

std::string with_decimals(double value, int decimals) {
  char text[400];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

// As many decimals as `step` needs, none on a whole number.
std::string with_unit(double value, double step, const std::string& unit) {
  const bool whole = std::abs(value - std::round(value)) < 1e-6;
  return with_decimals(value, whole ? 0 : decimals_of(step)) + unit;
}

// `size`: of the greatest value of the axis; it decides whether there are units.
std::string tick_text(double value, double step, double size) {
  if (value == 0) return "0";
  if (size < 1e-3 || size >= 1e15) {
    const double power = std::floor(std::log10(std::abs(value)) + 1e-9);
    const double unit = std::pow(10, power);
    return with_unit(value / unit, step / unit, formatted("e%.0f", power));
  }
  for (const Magnitude& unit : kUnits) {
    if (size < 1e4 || std::abs(value) < unit.size * (1 - 1e-9)) continue;
    return with_unit(value / unit.size, step / unit.size, unit.name);
  }
  return with_decimals(value, decimals_of(step));
}

void add_linear_ticks(Axis& axis, double step) {
  const double size = std::max(std::abs(axis.least), std::abs(axis.most));
  const double first = std::ceil(axis.least / step - 1e-6);
  const double count = std::floor(axis.most / step + 1e-6) - first;
  for (double at = 0; at <= std::min(count, 100.0); ++at) {
    const double value = (first + at) * step;
    axis.ticks.push_back({value, tick_text(value, step, size)});
  }
}

void add_log_ticks(Axis& axis, int wanted) {
  const double first = std::floor(std::log10(axis.least));
  const double last = std::ceil(std::log10(axis.most));
  const double decades = std::log10(axis.most) - std::log10(axis.least);
  const double every = std::max(std::ceil(decades / wanted), 1.0);
  for (double power = first; power <= last; ++power) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double value = times * std::pow(10, power);
      if (value < axis.least * (1 - 1e-9) || value > axis.most * (1 + 1e-9)) continue;
      if (times == 1 ? std::fmod(power, every) != 0 : decades > kDecadesOfFives) continue;
      axis.ticks.push_back({value, tick_text(value, value, value)});
    }
  }
}

double step_for(AxisKind kind, double least, double most, int wanted) {
  const double step = nice_step((most - least) / wanted);
  return kind == AxisKind::kWhole ? std::max(step, 1.0) : step;
}

// Room around values that are one, or nearly.
void widen(double& least, double& most, AxisKind kind) {
  least = std::clamp(least, -kFarthest, kFarthest);
  most = std::clamp(most, least, kFarthest);
  if (kind == AxisKind::kLog) {
    least = std::max(least, 1 / kFarthest);
    most = std::max(most, least * 1.01);
    return;
  }
  const double size = std::max({std::abs(least), std::abs(most), 1e-290});
  if (most - least > kNarrowest * size) return;
  const double room = kind == AxisKind::kWhole ? std::max(0.5, kNarrowest * size)
                      : least == 0             ? 0.5
                                               : 0.05 * size;
  least -= room;
  most += room;
}

}  // namespace

double Axis::place(double value) const {
  if (kind == AxisKind::kLinear || kind == AxisKind::kWhole)
    return (value - least) / (most - least);
  // Quotients of values would overflow.
  return (std::log(value) - std::log(least)) / (std::log(most) - std::log(least));
}

Axis make_axis(AxisKind kind, double least, double most, int wanted) {
  widen(least, most, kind);
  Axis axis{.kind = kind, .least = least, .most = most, .ticks = {}};
  if (kind == AxisKind::kLog) {
    add_log_ticks(axis, wanted);
  } else {
    add_linear_ticks(axis, step_for(kind, least, most, wanted));
  }
  return axis;
}

Axis roomy_axis(AxisKind kind, double least, double most, int wanted) {
  widen(least, most, kind);
  if (kind == AxisKind::kLog) {
    const double room = std::exp(kRoom * (std::log(most) - std::log(least)));
    return make_axis(kind, least / room, most * room, wanted);
  }
  const double room = kRoom * (most - least);
  const double below = least >= 0 ? std::max(least - room, 0.0) : least - room;
  return make_axis(kind, below, most + room, wanted);
}

AxisKind kind_for(std::span<const double> values, double times) {
  double least = HUGE_VAL;
  double most = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return least > 0 && std::isfinite(least) && most / least > times ? AxisKind::kLog
                                                                   : AxisKind::kLinear;
}

}  // namespace fm::report

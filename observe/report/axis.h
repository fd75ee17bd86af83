// The axis of a chart: from values to places between 0 and 1, and the ticks along it.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace fm::report {

enum class AxisKind : std::uint8_t {
  kLinear,
  kWhole,  // linear, ticks are whole numbers
  kLog,    // of positive values only
};

struct Tick {
  double value = 0;
  std::string text;
};

struct Axis {
  AxisKind kind = AxisKind::kLinear;
  double least = 0;
  double most = 1;
  std::vector<Tick> ticks;

  // 0 at `least`, 1 at `most`.
  double place(double value) const;
};

// From `least` to `most`, both finite; equal ones get room around them. About `wanted` ticks, at
// steps of 1, 2 or 5 times a power of ten.
Axis make_axis(AxisKind kind, double least, double most, int wanted);

// As make_axis, with a little room around the values; zero stays an end where it is one.
Axis roomy_axis(AxisKind kind, double least, double most, int wanted);

// kLog where all are positive and the greatest is more than `times` the least.
AxisKind kind_for(std::span<const double> values, double times);

}  // namespace fm::report

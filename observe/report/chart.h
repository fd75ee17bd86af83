// Charts over the steps of a run, as SVG.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fm::report {

enum class Look : std::uint8_t { kLine, kFaintLine, kPoints };

struct Series {
  std::string name;  // in the legend
  int colour = 0;
  Look look = Look::kLine;
  std::span<const double> x;  // steps, which rise
  std::span<const double> y;  // not finite: no point
};

struct Chart {
  std::string id;
  std::string title;
  std::string unit;  // of y
  std::vector<Series> series;
  std::vector<double> skipped = {};  // steps, marked below the lines
  std::vector<double> starts = {};   // of the program, after steps: dashed lines
  double first_step = 0;
  double last_step = 0;
  double log_beyond = 0;   // a log axis where the greatest is more than so many times the least
  bool from_zero = false;  // y begins at 0 on a linear axis
  bool wide = false;       // as wide as the page, else half
};

// <figure>...</figure>; "" when no series has a point.
std::string draw(const Chart& chart);

// Parts of a whole over the steps.
struct Shares {
  std::string id;
  std::string title;
  std::vector<std::string> names;
  std::span<const std::vector<float>> values;  // of a name, of a row
  std::span<const double> steps;
  double first_step = 0;
  double last_step = 0;
};
std::string draw(const Shares& shares);

}  // namespace fm::report

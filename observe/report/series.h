// Arithmetic over columns, which may be a million numbers long.
#pragma once

#include <span>
#include <vector>

namespace fm::report {

struct Point {
  double x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};

// Exponential mean over about `span` values, as pandas.ewm(span, adjust=True).mean(): the weight of
// a value falls by 1 - 2 / (span + 1) with each one after it. Where a value is not finite, neither
// is the mean, which goes on behind it.
std::vector<double> smoothed(std::span<const double> values, double span);

// The same with a span that begins at one value and is never more than a quarter of those before:
// where a run begins, a loss falls faster than a long mean can follow.
std::vector<double> smoothed_from_start(std::span<const double> values, double span);

// Of the finite ones; NaN when there are none.
double median(std::span<const double> values);
double sum(std::span<const double> values);

// Finite points, of each of `columns` parts between the ends of x at most four: the first, the
// least, the greatest and the last. A line through them covers the same pixels as one through all.
// x must not fall.
std::vector<Point> thinned(std::span<const double> x, std::span<const double> y, int columns);

}  // namespace fm::report

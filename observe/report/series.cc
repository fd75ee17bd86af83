#include "observe/report/series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace fm::report {

namespace {

template <class SpanOf>
std::vector<double> smoothed_by(std::span<const double> values, const SpanOf& span_of) {
  long double weighted = 0;  // a sum of values near the largest double
  double weight = 0;
  std::vector<double> out;
  out.reserve(values.size());
  for (const double value : values) {
    if (!std::isfinite(value)) {
      out.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    const double fall = 1 - 2 / (span_of(out.size()) + 1);
    weighted = fall * weighted + value;
    weight = fall * weight + 1;
    out.push_back(static_cast<double>(weighted / weight));
  }
  return out;
}

}  // namespace

std::vector<double> smoothed(std::span<const double> values, double span) {
  return smoothed_by(values, [span](std::size_t) { return span; });
}

std::vector<double> smoothed_from_start(std::span<const double> values, double span) {
  return smoothed_by(values, [span](std::size_t before) {
    return std::min(span, 1 + static_cast<double>(before) / 4);
  });
}

double median(std::span<const double> values) {
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = finite.begin() + std::ssize(finite) / 2;
  std::nth_element(finite.begin(), middle, finite.end());
  if (finite.size() % 2 == 1) return *middle;
  return *middle / 2 + *std::max_element(finite.begin(), middle) / 2;
}

double sum(std::span<const double> values) {
  double total = 0;
  for (const double value : values) total += std::isfinite(value) ? value : 0;
  return total;
}

namespace {

// What is kept of one part, in the order of x.
class Extremes {
 public:
  void add(const Point& point) {
    if (count_++ == 0) first_ = least_ = greatest_ = point;
    if (point.y < least_.y) least_ = point;
    if (point.y > greatest_.y) greatest_ = point;
    last_ = point;
  }
  void move_to(std::vector<Point>& points) {
    if (count_ == 0) return;
    std::array<Point, 4> kept = {first_, least_, greatest_, last_};
    std::sort(kept.begin(), kept.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
    points.insert(points.end(), kept.begin(), std::unique(kept.begin(), kept.end()));
    count_ = 0;
  }

 private:
  std::size_t count_ = 0;
  Point first_, least_, greatest_, last_;
};

}  // namespace

std::vector<Point> thinned(std::span<const double> x, std::span<const double> y, int columns) {
  std::vector<Point> points;
  if (x.empty()) return points;
  const double width = std::max((x.back() - x.front()) / columns, 1e-300);
  Extremes part;
  double part_at = 0;
  for (std::size_t at = 0; at < x.size(); ++at) {
    if (!std::isfinite(y[at])) continue;
    const double column = std::floor((x[at] - x.front()) / width);
    if (column != part_at) part.move_to(points);
    part_at = column;
    part.add({x[at], y[at]});
  }
  part.move_to(points);
  return points;
}

}  // namespace fm::report

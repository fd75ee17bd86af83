// One picture with axes: a frame, ticks, a legend, and what is drawn into it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "observe/report/axis.h"
#include "observe/report/series.h"

namespace fm::report {

// A key of the legend: the class of its swatch and its words.
struct LegendKey {
  std::string look;  // "line s0", "faint s0", "dot f0", "mark", "area f0"
  std::string words;
};

// Invariant: all that is drawn lies in the viewBox.
class Canvas {
 public:
  Canvas(const Axis& x, const Axis& y, double width, double height);

  double left() const { return kLeft; }
  double right() const { return width_ - kRight; }
  double bottom() const { return height_ - kBottom; }
  double x_of(double value) const;
  double y_of(double value) const;
  int columns() const { return static_cast<int>(right() - left()); }

  // `look`: classes of observe/report/page.cc.
  void line(std::span<const Point> points, std::string_view look);
  void dot(const Point& point, double radius, std::string_view look, const std::string& hint);
  void skipped(double x);
  void start(double x);
  void raw(std::string_view svg) { body_ += svg; }
  std::string svg(std::string_view label) const;

  static constexpr double kLeft = 58;
  static constexpr double kRight = 14;
  static constexpr double kTop = 10;
  static constexpr double kBottom = 38;

 private:
  Axis x_;
  Axis y_;
  double width_;
  double height_;
  std::string grid_;
  std::string body_;
};

std::string place_text(double value);
std::string legend(std::span<const LegendKey> keys);

struct Caption {
  std::string id;
  std::string title;
  std::string unit;  // or ""
  bool wide = false;
};
// A caption above a picture and its legend.
std::string figure(const Caption& caption, std::string_view content);

}  // namespace fm::report

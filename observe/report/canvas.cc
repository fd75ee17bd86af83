#include "observe/report/canvas.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "observe/report/numbers.h"

namespace fm::report {

using core::concat;

std::string place_text(double value) {
  std::string text = formatted("%.1f", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

Canvas::Canvas(const Axis& x, const Axis& y, double width, double height)
    : x_(x), y_(y), width_(width), height_(height) {
  for (const Tick& tick : y_.ticks) {
    const std::string at = place_text(y_of(tick.value));
    grid_ += concat("<path class=\"grid\" d=\"M", kLeft, " ", at, "H", right(), "\"/><text x=\"",
                    kLeft - 8, "\" y=\"", at, "\" class=\"y\">", tick.text, "</text>");
  }
  for (const Tick& tick : x_.ticks) {
    const std::string at = place_text(x_of(tick.value));
    grid_ += concat("<path class=\"tick\" d=\"M", at, " ", bottom(), "v5\"/><text x=\"", at,
                    "\" y=\"", bottom() + 17, "\" class=\"x\">", tick.text, "</text>");
  }
  grid_ += concat("<path class=\"axis\" d=\"M", kLeft, " ", bottom(), "H", right(), "\"/>",
                  "<text x=\"", place_text((left() + right()) / 2), "\" y=\"", height_ - 5,
                  "\" class=\"x name\">step</text>");
}

double Canvas::x_of(double value) const {
  return left() + std::clamp(x_.place(value), 0.0, 1.0) * (right() - left());
}

double Canvas::y_of(double value) const {
  return bottom() - std::clamp(y_.place(value), 0.0, 1.0) * (bottom() - kTop);
}

void Canvas::line(std::span<const Point> points, std::string_view look) {
  if (points.empty()) return;
  std::string path;
  for (const Point& point : points) {
    path +=
        (path.empty() ? "M" : " ") + place_text(x_of(point.x)) + " " + place_text(y_of(point.y));
  }
  if (points.size() == 1) path += "h.1";  // round ends make it a dot
  body_ += concat("<path class=\"", look, "\" d=\"", path, "\"/>");
}

void Canvas::dot(const Point& point, double radius, std::string_view look,
                 const std::string& hint) {
  body_ += concat("<circle class=\"", look, "\" cx=\"", place_text(x_of(point.x)), "\" cy=\"",
                  place_text(y_of(point.y)), "\" r=\"", radius, "\"><title>", escaped(hint),
                  "</title></circle>");
}

void Canvas::start(double x) {
  body_ +=
      concat("<path class=\"start\" d=\"M", place_text(x_of(x)), " ", kTop, "V", bottom(), "\"/>");
}

void Canvas::skipped(double x) {
  body_ +=
      concat("<path class=\"mark\" d=\"M", place_text(x_of(x)), " ", bottom() - 8, "l4 8h-8z\"/>");
}

std::string Canvas::svg(std::string_view label) const {
  return concat("<svg viewBox=\"0 0 ", width_, " ", height_, "\" role=\"img\" aria-label=\"",
                escaped(label), "\">", grid_, body_, "</svg>");
}

std::string legend(std::span<const LegendKey> keys) {
  std::string out;
  for (const LegendKey& key : keys) {
    out += concat("<li><i class=\"", key.look, "\"></i>", escaped(key.words), "</li>");
  }
  return "<ul class=\"legend\">" + out + "</ul>";
}

std::string figure(const Caption& caption, std::string_view content) {
  const std::string unit =
      caption.unit.empty() ? "" : concat(" <small>", escaped(caption.unit), "</small>");
  return concat("<figure id=\"", caption.id, caption.wide ? "\" class=\"wide\">" : "\">",
                "<figcaption>", escaped(caption.title), unit, "</figcaption>", content,
                "</figure>\n");
}

}  // namespace fm::report

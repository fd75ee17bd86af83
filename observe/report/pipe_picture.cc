#include "observe/report/pipe_picture.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/check.h"
#include "observe/report/axis.h"
#include "observe/report/canvas.h"
#include "observe/report/numbers.h"

namespace fm::report {
namespace {

using core::concat;

constexpr double kWidth = 1200;
constexpr double kLeft = 96;
constexpr double kRight = kWidth - 64;  // behind it stands how long a rank is idle
constexpr double kMarkLane = 9;         // above a row for gathers, below it for sends
constexpr double kNarrowest = 2;        // box
constexpr double kCloseMarks = 4;       // nearer ones of a kind are one mark
constexpr std::size_t kMostMarks = 48;  // of a kind in a row; more cannot be told apart
constexpr std::size_t kMostRows = 32;

// Okabe and Ito's colours, which people with a colour-blind eye tell apart
// (jfly.uni-koeln.de/color); a rank's second, fourth ... chunk has a lighter one.
struct Look {
  std::string_view words;
  std::array<std::string_view, 2> fill;
  std::array<std::string_view, 2> ink;
};
constexpr std::array<Look, kPipeWorks> kLooks = {{
    {"forward", {"#0072b2", "#8cc4e6"}, {"#fff", "#111"}},
    {"backward", {"#e69f00", "#f6d58e"}, {"#111", "#111"}},
    {"backward of weights", {"#009e73", "#8fd3bf"}, {"#fff", "#111"}},
    {"loss (head, both ways)", {"#cc79a7", "#e6bcd3"}, {"#111", "#111"}},
    {"reductions, norm, update", {"#9aa1a9", "#9aa1a9"}, {"#111", "#111"}},
}};

struct MarkLook {
  std::string_view words, many;
  std::string_view path;  // around the point (0, 0), 7 high
};
constexpr std::array<MarkLook, kPipeMarks> kMarkLooks = {{
    {"gather of weights", "gathers", "l3.5 3.5l-3.5 3.5l-3.5 -3.5z"},
    {"sends an activation", "activations sent", "m-3 1h6l-3 5.5z"},
    {"sends a gradient", "gradients sent", "m-3 6h6l-3 -5.5z"},
}};

std::size_t index_of(auto value) { return static_cast<std::size_t>(value); }
const Look& look_of(const PipeBox& box) { return kLooks[index_of(box.work)]; }

std::string percent(double share) { return formatted("%.1f %%", 100 * share); }

std::string text_at(double x, double y, std::string_view look, std::string_view words) {
  return concat("<text class=\"", look, "\" x=\"", place_text(x), "\" y=\"", place_text(y), "\">",
                escaped(words), "</text>");
}

// The part of the step that can be seen: all of it, or as much as boxes of kNarrowest fit in.
struct Window {
  double end = 0;
  bool cut = false;
};

Window window_of(const PipePicture& picture) {
  Window window;
  for (const PipePanel& panel : picture.panels) window.end = std::max(window.end, panel.length);
  const auto most = static_cast<std::size_t>((kRight - kLeft) / kNarrowest);
  for (const PipePanel& panel : picture.panels) {
    for (const PipeRow& row : panel.rows) {
      if (row.boxes.size() <= most || row.boxes[most].begin >= window.end) continue;
      window = {row.boxes[most].begin, true};
    }
  }
  return window;
}

// Draws the panels from the top downwards.
class Drawing {
 public:
  Drawing(const PipePicture& picture, double top)
      : picture_(picture), window_(window_of(picture)), y_(top) {
    count_marks();
    const std::size_t rows = std::transform_reduce(
        picture.panels.begin(), picture.panels.end(), std::size_t{0}, std::plus<>(),
        [](const PipePanel& panel) { return std::min(panel.rows.size(), kMostRows); });
    height_ = rows <= 8 ? 28 : rows <= 20 ? 20 : 13;
    for (const PipePanel& panel : picture.panels) draw(panel);
    draw_legend();
  }

  double height() const { return y_ + 8; }
  const std::string& svg() const { return svg_; }

 private:
  double x_of(double time) const {
    return kLeft + std::clamp(time / std::max(window_.end, 1e-12), 0.0, 1.0) * (kRight - kLeft);
  }

  void draw(const PipePanel& panel) {
    std::string title = concat(panel.title, ": bubble ", percent(panel.bubble()));
    if (window_.cut) {
      title += concat("; the picture is cut after ", percent(window_.end / panel.length),
                      " of the step, the bubble is that of the whole");
    }
    if (panel.rows.size() > kMostRows) {
      title += concat("; the first ", kMostRows, " of ", panel.rows.size(), " ranks");
    }
    svg_ += text_at(kLeft, y_ + 14, "head", title) + text_at(kWidth - 8, y_ + 14, "idle", "idle");
    y_ += 22;
    const double top = y_;
    const auto begin = svg_.size();
    for (std::size_t row = 0; row < std::min(panel.rows.size(), kMostRows); ++row) {
      draw(panel, panel.rows[row]);
    }
    svg_.insert(begin, grid(top, y_));
    draw_axis();
  }

  std::string grid(double top, double bottom) const {
    std::string out;
    for (const Tick& tick : axis().ticks) {
      out += concat("<path class=\"rule\" d=\"M", place_text(x_of(tick.value)), " ",
                    place_text(top), "V", place_text(bottom), "\"/>");
    }
    return out;
  }

  void draw(const PipePanel& panel, const PipeRow& row) {
    y_ += drawn(PipeMark::kGather) ? kMarkLane : 2;
    const double middle = y_ + height_ / 2 + 4;
    svg_ += text_at(kLeft - 10, middle, "name", row.name) +
            text_at(kWidth - 8, middle, "idle", percent(panel.idle(row)));
    svg_ += concat("<path class=\"lane\" d=\"M", kLeft, " ", place_text(y_), "H", kRight, "v",
                   height_, "H", kLeft, "z\"/>");
    for (const PipeBox& box : row.boxes) draw(box);
    draw_marks(row);
    y_ += height_ + (drawn(PipeMark::kSendAct) || drawn(PipeMark::kSendGrad) ? kMarkLane : 2);
  }

  void draw(const PipeBox& box) {
    if (box.begin >= window_.end) return;
    const double left = x_of(box.begin);
    const double width = std::max(x_of(box.end) - left, 0.4);
    const std::size_t shade = index_of(box.chunk % 2);
    const std::string_view fill = look_of(box).fill[shade];
    const std::string micro = box.micro < 0 ? "" : std::to_string(box.micro);
    svg_ += concat("<rect", width > 3 ? " class=\"box\"" : "", " x=\"", place_text(left), "\" y=\"",
                   place_text(y_), "\" width=\"", formatted("%.2f", width), "\" height=\"", height_,
                   "\" fill=\"", fill, "\"><title>", hint(box), "</title></rect>");
    const bool fits = width >= 7.0 * static_cast<double>(micro.size()) + 3 && height_ > 14;
    if (micro.empty() || !fits) return;
    svg_ += concat("<text class=\"micro\" style=\"fill:", look_of(box).ink[shade], "\" x=\"",
                   place_text(left + width / 2), "\" y=\"", place_text(y_ + height_ / 2 + 4), "\">",
                   micro, "</text>");
  }

  std::string hint(const PipeBox& box) const {
    std::string out(look_of(box).words);
    if (box.micro >= 0) out += concat(", micro-batch ", box.micro);
    if (box.chunk > 0) out += concat(", chunk ", box.chunk);
    return escaped(concat(out, ", ", plain(box.begin), " to ", plain(box.end), " ", picture_.unit));
  }

  void draw_marks(const PipeRow& row) {
    std::array<double, kPipeMarks> before;
    before.fill(-kCloseMarks);
    std::array<std::string, kPipeMarks> paths;
    for (const PipeMarkAt& at : row.marks) {
      const double x = x_of(at.time);
      const std::size_t mark = index_of(at.mark);
      if (!drawn(at.mark) || at.time > window_.end || x - before[mark] < kCloseMarks) continue;
      before[mark] = x;
      const double y = at.mark == PipeMark::kGather ? y_ - 8 : y_ + height_ + 1;
      paths[mark] += concat("M", place_text(x), " ", place_text(y), kMarkLooks[mark].path);
    }
    for (std::size_t mark = 0; mark < kPipeMarks; ++mark) {
      if (paths[mark].empty()) continue;
      svg_ += concat("<path class=\"m", mark, "\" d=\"", paths[mark], "\"/>");
    }
  }

  bool drawn(PipeMark mark) const {
    const std::size_t most = most_marks_[index_of(mark)];
    return most > 0 && most <= kMostMarks;
  }

  void count_marks() {
    for (const PipePanel& panel : picture_.panels) {
      for (const PipeRow& row : panel.rows) {
        for (std::size_t mark = 0; mark < kPipeMarks; ++mark) {
          const auto here =
              std::ranges::count(row.marks, static_cast<PipeMark>(mark), &PipeMarkAt::mark);
          most_marks_[mark] = std::max(most_marks_[mark], index_of(here));
        }
      }
    }
  }

  Axis axis() const { return make_axis(AxisKind::kLinear, 0, window_.end, 12); }

  void draw_axis() {
    svg_ += concat("<path class=\"rim\" d=\"M", kLeft, " ", place_text(y_), "H", kRight, "\"/>");
    for (const Tick& tick : axis().ticks) {
      svg_ += concat("<path class=\"rim\" d=\"M", place_text(x_of(tick.value)), " ", place_text(y_),
                     "v5\"/>") +
              text_at(x_of(tick.value), y_ + 18, "tick", tick.text);
    }
    svg_ += text_at(kRight + 8, y_ + 18, "unit", picture_.unit);
    y_ += 38;
  }

  std::string marks_left_out() const {
    std::string out;
    for (std::size_t mark = 0; mark < kPipeMarks; ++mark) {
      if (most_marks_[mark] <= kMostMarks) continue;
      out += concat(out.empty() ? "not drawn, because there are too many: " : ", ",
                    kMarkLooks[mark].many, " (", most_marks_[mark], " on a rank)");
    }
    return out;
  }

  // Only of what can be seen.
  void draw_legend() {
    std::array<std::array<bool, 2>, kPipeWorks> there{};
    for (const PipePanel& panel : picture_.panels) {
      for (const PipeRow& row : panel.rows) {
        for (const PipeBox& box : row.boxes) {
          there[index_of(box.work)][index_of(box.chunk % 2)] = true;
        }
      }
    }
    double x = kLeft;
    const auto words = [&](std::string_view text) {
      svg_ += text_at(x, y_ + 10, "key", text);
      x += 6.6 * static_cast<double>(text.size()) + 22;
    };
    bool chunks = false;
    for (std::size_t work = 0; work < kPipeWorks; ++work) {
      if (!there[work][0] && !there[work][1]) continue;
      for (std::size_t shade = 0; shade < (there[work][1] ? 2 : 1); ++shade) {
        svg_ += concat("<rect x=\"", place_text(x), "\" y=\"", place_text(y_),
                       "\" width=\"12\" height=\"12\" fill=\"", kLooks[work].fill[shade], "\"/>");
        x += 14;
      }
      chunks = chunks || there[work][1];
      x += 4;
      words(kLooks[work].words);
    }
    words("numbers: micro-batches");
    y_ += 22;
    x = kLeft;
    for (std::size_t mark = 0; mark < kPipeMarks; ++mark) {
      if (!drawn(static_cast<PipeMark>(mark))) continue;
      svg_ += concat("<path class=\"m", mark, "\" d=\"M", place_text(x + 6), " ",
                     place_text(y_ + 2), kMarkLooks[mark].path, "\"/>");
      x += 18;
      words(kMarkLooks[mark].words);
    }
    if (chunks) words("light: a rank's second, fourth ... chunk");
    if (const std::string left_out = marks_left_out(); !left_out.empty()) words(left_out);
    y_ += 20;
  }

  const PipePicture& picture_;
  Window window_;
  double y_;
  double height_ = 28;  // of a row
  std::string svg_;
  std::array<std::size_t, kPipeMarks> most_marks_{};  // in any row
};

struct Inks {
  std::string_view ink, dim, line, lane, ground;
};

std::string sheet(const Inks& inks) {
  return concat(
      ".pipe text{font-size:12px;fill:", inks.dim, "}.pipe .title{font-size:17px;font-weight:600;",
      "fill:", inks.ink, "}.pipe .head{font-size:13px;font-weight:600;fill:", inks.ink,
      "}.pipe .micro{font-size:11px;text-anchor:middle}.pipe .tick{text-anchor:middle}",
      ".pipe .name,.pipe .idle{text-anchor:end}.pipe .lane{fill:", inks.lane,
      "}.pipe .box{stroke:", inks.ground, ";stroke-width:.8}.pipe .rule{stroke:", inks.line,
      ";stroke-width:.6}.pipe .rim{stroke:", inks.dim, ";fill:none}.pipe .m0{fill:#d55e00}",
      ".pipe .m1,.pipe .m2{fill:", inks.ink, "}");
}

double scale_to(const PipePanel& predicted, const PipePanel& measured, unsigned data_ranks) {
  double flops = 0;
  double time = 0;
  for (const PipeRow& row : predicted.rows) flops += predicted.busy(row);
  for (const PipeRow& row : measured.rows) time += measured.busy(row);
  return flops > 0 ? time / (flops * std::max(data_ranks, 1U)) : 1;
}

void scale(PipePanel& panel, double by) {
  panel.length *= by;
  for (PipeRow& row : panel.rows) {
    for (PipeBox& box : row.boxes) {
      box.begin *= by;
      box.end *= by;
    }
    for (PipeMarkAt& mark : row.marks) mark.time *= by;
  }
}

}  // namespace

PipePicture pipe_picture(const PipePrediction* predicted, const TraceStep* trace) {
  PipePicture picture;
  const bool both = predicted != nullptr && trace != nullptr;
  picture.title = "Pipeline";
  if (predicted != nullptr) {
    picture.title = concat("Pipeline ", predicted->schedule, ", ", predicted->panel.rows.size(),
                           " pipe ranks, ", predicted->micros, " micro-batches");
    picture.unit = predicted->unit;
    picture.panels.push_back(predicted->panel);
    const bool counted = predicted->unit == "GFLOP";
    const std::string source = counted ? "FLOPs" : "--plan_times";
    picture.panels.back().title =
        both      ? concat("predicted from ", source, ", as much work as measured")
        : counted ? "predicted; a rank's time is counted in its FLOPs"
                  : concat("predicted from ", source);
  }
  if (trace == nullptr) return picture;
  PipePanel measured = measured_panel(
      *trace, predicted != nullptr ? predicted->chunk_of_unit : std::vector<unsigned>());
  measured.title = concat("measured, step ", trace->step);
  picture.unit = "ms";
  if (both) {
    scale(picture.panels.back(), scale_to(predicted->panel, measured, predicted->data_ranks));
  }
  picture.panels.push_back(std::move(measured));
  return picture;
}

std::string svg_file(const PipePicture& picture) {
  const Drawing drawing(picture, 40);
  const std::string height = place_text(drawing.height());
  return concat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
      "class=\"pipe\" width=\"",
      kWidth, "\" height=\"", height, "\" viewBox=\"0 0 ", kWidth, " ", height,
      "\" font-family=\"system-ui,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif\">\n<title>",
      escaped(picture.title), "</title>\n<style>",
      sheet({"#1a1e23", "#4d555f", "#d5d9de", "#f0f2f4", "#fff"}),
      "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      text_at(kLeft, 26, "title", picture.title), drawing.svg(), "</svg>\n");
}

std::string figure_of(const PipePicture& picture) {
  if (picture.panels.empty() || picture.panels.front().rows.size() < 2) return "";
  const Drawing drawing(picture, 4);
  return figure(
      {"pipeline", picture.title, "", true},
      concat("<svg class=\"pipe\" viewBox=\"0 0 ", kWidth, " ", place_text(drawing.height()),
             "\" role=\"img\" aria-label=\"", escaped(picture.title), "\"><style>",
             sheet({"var(--ink)", "var(--dim)", "var(--line)", "var(--page)", "var(--card)"}),
             "</style>", drawing.svg(), "</svg>"));
}

}  // namespace fm::report

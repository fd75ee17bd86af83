#include "observe/report/pipe_panel.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"

namespace fm::report {
namespace {

using core::concat;
using nlohmann::json;

constexpr double kNoBreak = 0.002;  // of the step: a shorter gap joins two boxes

// Instructions by their name in a trace (pipeline/instruction.cc).
struct WorkRow {
  std::string_view name;
  PipeWork work;
};
constexpr std::array kWorks = {
    WorkRow{"forward", PipeWork::kForward},    WorkRow{"loss", PipeWork::kLoss},
    WorkRow{"backward", PipeWork::kBackward},  WorkRow{"backward_input", PipeWork::kBackward},
    WorkRow{"recompute", PipeWork::kBackward}, WorkRow{"backward_weight", PipeWork::kWeight},
    WorkRow{"reduce", PipeWork::kState},       WorkRow{"reduce_tied", PipeWork::kState},
    WorkRow{"norm", PipeWork::kState},         WorkRow{"norm_part", PipeWork::kState},
    WorkRow{"update", PipeWork::kState},       WorkRow{"publish", PipeWork::kState},
    WorkRow{"rest", PipeWork::kState},         WorkRow{"fetch", PipeWork::kState},
    WorkRow{"store", PipeWork::kState}};

struct MarkRow {
  std::string_view name;
  PipeMark mark;
};
constexpr std::array kMarks = {MarkRow{"gather", PipeMark::kGather},
                               MarkRow{"send_act", PipeMark::kSendAct},
                               MarkRow{"send_grad", PipeMark::kSendGrad}};

struct Event {
  std::string_view name;
  std::int64_t micro = -1;
  std::int64_t unit = -1;
  double begin = 0;
  double end = 0;
};

unsigned chunk_at(const std::vector<unsigned>& chunk_of_unit, std::int64_t unit) {
  const bool known = unit >= 0 && unit < std::ssize(chunk_of_unit);
  return known ? chunk_of_unit[static_cast<std::size_t>(unit)] : 0U;
}

// Adds an event to a row whose events come by their begin; units that follow one another are one
// box.
void add(const Event& event, double length, const std::vector<unsigned>& chunk_of_unit,
         PipeRow& row) {
  const auto mark = std::ranges::find(kMarks, event.name, &MarkRow::name);
  if (mark != kMarks.end()) row.marks.push_back({mark->mark, event.begin});
  const auto known = std::ranges::find(kWorks, event.name, &WorkRow::name);
  if (known == kWorks.end() || event.end <= event.begin) return;
  const bool state = known->work == PipeWork::kState;
  const PipeBox box{.work = known->work,
                    .micro = state ? -1 : event.micro,
                    .chunk = state ? 0U : chunk_at(chunk_of_unit, event.unit),
                    .begin = event.begin,
                    .end = event.end};
  if (!row.boxes.empty()) {
    PipeBox& last = row.boxes.back();
    const bool same = last.work == box.work && last.micro == box.micro && last.chunk == box.chunk;
    if (same && box.begin - last.end <= kNoBreak * length) {
      last.end = std::max(last.end, box.end);
      return;
    }
  }
  row.boxes.push_back(box);
}

// ["forward", micro, unit, begin, end]
std::optional<Event> read_event(const json& from) {
  if (!from.is_array() || from.size() != 5 || !from[0].is_string()) return std::nullopt;
  if (!from[1].is_number_integer() || !from[2].is_number_integer()) return std::nullopt;
  if (!from[3].is_number() || !from[4].is_number()) return std::nullopt;
  return Event{.name = from[0].get_ref<const std::string&>(),
               .micro = from[1].get<std::int64_t>(),
               .unit = from[2].get<std::int64_t>(),
               .begin = from[3].get<double>(),
               .end = from[4].get<double>()};
}

bool read_ranks(const json& ranks, PipePrediction& out) {
  for (const json& rank : ranks) {
    if (!rank.is_array()) return false;
    for (const json& event : rank) {
      const std::optional<Event> read = read_event(event);
      if (!read) return false;
      out.panel.length = std::max(out.panel.length, read->end);
    }
  }
  for (const json& rank : ranks) {
    PipeRow& row = out.panel.rows.emplace_back();
    row.name = concat("pipe rank ", out.panel.rows.size() - 1);
    for (const json& event : rank)
      add(*read_event(event), out.panel.length, out.chunk_of_unit, row);
  }
  return !out.panel.rows.empty();
}

}  // namespace

double PipePanel::busy(const PipeRow& row) const {
  double sum = 0;
  for (const PipeBox& box : row.boxes) {
    if (box.work != PipeWork::kState) sum += box.end - box.begin;
  }
  return sum;
}

double PipePanel::span() const {
  double first = length;
  double last = 0;
  for (const PipeRow& row : rows) {
    for (const PipeBox& box : row.boxes) {
      if (box.work == PipeWork::kState) continue;
      first = std::min(first, box.begin);
      last = std::max(last, box.end);
    }
  }
  return std::max(last - first, 0.0);
}

double PipePanel::idle(const PipeRow& row) const {
  const double whole = span();
  return whole > 0 ? 1 - busy(row) / whole : 0;
}

double PipePanel::bubble() const {
  double sum = 0;
  for (const PipeRow& row : rows) sum += idle(row);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

std::optional<PipePrediction> read_prediction(std::string_view text) {
  const json from = json::parse(core::is_shallow(text) ? text : "", nullptr, false);
  if (!from.is_object() || !from.contains("ranks") || !from["ranks"].is_array()) {
    return std::nullopt;
  }
  const auto has = [&](const char* name, json::value_t type) {
    return from.contains(name) && from[name].type() == type;
  };
  using Type = json::value_t;
  if (!has("schedule", Type::string) || !has("unit", Type::string) ||
      !has("micros", Type::number_unsigned) || !has("data_ranks", Type::number_unsigned) ||
      !has("chunk_of_unit", Type::array)) {
    return std::nullopt;
  }
  PipePrediction out{.schedule = from["schedule"],
                     .micros = from["micros"].get<unsigned>(),
                     .data_ranks = from["data_ranks"].get<unsigned>(),
                     .unit = from["unit"],
                     .chunk_of_unit = {},
                     .panel = {}};
  for (const json& chunk : from["chunk_of_unit"]) {
    if (!chunk.is_number_unsigned()) return std::nullopt;
    out.chunk_of_unit.push_back(chunk);
  }
  if (!read_ranks(from["ranks"], out)) return std::nullopt;
  return out;
}

PipePanel measured_panel(const TraceStep& trace, const std::vector<unsigned>& chunk_of_unit) {
  PipePanel panel{.title = "", .length = trace.length_us * 1e-3, .rows = {}};
  for (const auto& [rank, instructions] : trace.ranks) {
    PipeRow& row = panel.rows.emplace_back();
    row.name = concat("rank ", rank);
    for (const TraceInstruction& one : instructions) {
      add({.name = one.name,
           .micro = one.micro,
           .unit = one.unit,
           .begin = one.ready_us * 1e-3,
           .end = one.end_us * 1e-3},
          panel.length, chunk_of_unit, row);
    }
  }
  return panel;
}

}  // namespace fm::report

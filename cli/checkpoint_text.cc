#include "cli/checkpoint_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_file.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using checkpoint::SurveyEntry;
using checkpoint::SurveyKind;
using nlohmann::ordered_json;

constexpr std::size_t kMostDamages = 20;  // lines of one checkpoint
constexpr std::int64_t kMostFacts = 40;

std::string date_of(std::int64_t time_s, const char* form) {
  const auto seconds = static_cast<std::time_t>(time_s);
  std::tm parts{};
  char text[40] = "?";
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof(text), form, &parts);
  return text;
}

std::string number(const char* form, double value) {
  char text[40];
  std::snprintf(text, sizeof(text), form, value);
  return text;
}

const char* word_of(SurveyKind kind) {
  switch (kind) {
    case SurveyKind::kCheckpoint: return "checkpoint";
    case SurveyKind::kPutAside: return "put aside";
    case SurveyKind::kUnfinished: return "unfinished";
    case SurveyKind::kDiscarded: return "being deleted";
  }
  return "?";
}

std::vector<std::string> marks_of(const SurveyEntry& entry) {
  std::vector<std::string> marks;
  if (entry.kind != SurveyKind::kCheckpoint) marks.emplace_back(word_of(entry.kind));
  if (entry.newest) marks.emplace_back("newest");
  if (entry.latest) marks.emplace_back("latest");
  if (entry.proven) marks.emplace_back("proven");
  if (entry.kind == SurveyKind::kCheckpoint && !entry.in_line && entry.problem.empty()) {
    marks.emplace_back("of another run");
  }
  if (!entry.problem.empty()) marks.push_back("NOT COMPLETE: " + entry.problem);
  return marks;
}

// "2 0123abcd < 4567cdef global_step40"
std::string run_of(const SurveyEntry& entry) {
  const auto& lineage = entry.lineage;
  if (lineage.run.empty()) return "-";
  std::string run = core::concat(lineage.number, " ", lineage.run.substr(0, 8));
  if (lineage.parent_tag.empty()) return run;
  return core::concat(run, " < ", lineage.parent_run.substr(0, 8), " ", lineage.parent_tag);
}

using TextRow = std::vector<std::string>;

// Columns as wide as their widest word; the last one as it is.
std::string table_of(const std::vector<TextRow>& rows) {
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows[0].size());
  for (const TextRow& row : rows) {
    for (std::size_t at = 0; at < row.size(); ++at)
      widths[at] = std::max(widths[at], row[at].size());
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t at = 0; at < row.size(); ++at) {
      line += row[at];
      if (at + 1 < row.size()) line += std::string(widths[at] + 2 - row[at].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

ordered_json json_of(const SurveyEntry& entry) {
  ordered_json json = {{"name", entry.folder.filename().string()},
                       {"kind", word_of(entry.kind)},
                       {"step", entry.step < 0 ? ordered_json() : ordered_json(entry.step)},
                       {"time", date_of(entry.time_s, "%Y-%m-%dT%H:%M:%SZ")},
                       {"bytes", entry.bytes.count()},
                       {"run", entry.lineage.run},
                       {"run_number", entry.lineage.number},
                       {"parent_run", entry.lineage.parent_run},
                       {"parent_tag", entry.lineage.parent_tag},
                       {"save_ms", entry.save_ms}};
  if (entry.kind != SurveyKind::kCheckpoint) return json;
  json["complete"] = entry.problem.empty();
  json["problem"] = entry.problem;
  json["in_line"] = entry.in_line;
  json["newest"] = entry.newest;
  json["latest"] = entry.latest;
  json["proven"] = entry.proven;
  return json;
}

std::string dumped(const ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string survey_text(const checkpoint::OutputSurvey& survey) {
  if (survey.entries.empty()) {
    return core::concat("no checkpoints in ", survey.output_dir.string(), "\n");
  }
  std::vector<TextRow> rows = {{"name", "written (UTC)", "size", "save", "run", "marks"}};
  core::Bytes all;
  for (const SurveyEntry& entry : survey.entries) {
    all += entry.bytes;
    rows.push_back(
        {entry.folder.filename().string(), date_of(entry.time_s, "%Y-%m-%d %H:%M:%S"),
         core::human(entry.bytes),
         entry.save_ms > 0 ? core::human_duration(1e-3 * static_cast<double>(entry.save_ms)) : "-",
         run_of(entry), core::join(marks_of(entry), ", ")});
  }
  return table_of(rows) +
         core::concat(core::counted(survey.entries.size(), "folder"), ", ", core::human(all), "\n");
}

std::string survey_json(const checkpoint::OutputSurvey& survey) {
  ordered_json json = {{"output_dir", survey.output_dir.string()},
                       {"lock", survey.holder},
                       {"folders", ordered_json::array()}};
  for (const SurveyEntry& entry : survey.entries) json["folders"].push_back(json_of(entry));
  return dumped(json);
}

std::string verified_text(const checkpoint::VerifiedCheckpoint& verified, double seconds) {
  const auto bytes = static_cast<double>(verified.bytes.count());
  const double rate = seconds > 0 ? 1e-9 * bytes / seconds : 0;
  std::string text = core::concat(
      verified.folder.string(), ": ", verified.damages.empty() ? "whole" : "DAMAGED", ", ",
      core::counted(verified.files, "file"), ", ", core::human(verified.bytes), " read in ",
      core::human_duration(seconds), ", ", number("%.2f", rate), " GB/s\n");
  for (std::size_t at = 0; at < std::min(verified.damages.size(), kMostDamages); ++at) {
    text += "  " + verified.damages[at] + "\n";
  }
  if (verified.damages.size() > kMostDamages) {
    text += core::concat("  and ", verified.damages.size() - kMostDamages, " more; see --json\n");
  }
  return text;
}

std::string verified_json(const std::vector<checkpoint::VerifiedCheckpoint>& all) {
  ordered_json json = {{"checkpoints", ordered_json::array()}};
  for (const checkpoint::VerifiedCheckpoint& each : all) {
    json["checkpoints"].push_back({{"folder", each.folder.string()},
                                   {"step", each.step},
                                   {"whole", each.damages.empty()},
                                   {"bytes", each.bytes.count()},
                                   {"damages", each.damages}});
  }
  return dumped(json);
}

std::string pruned_text(const std::vector<checkpoint::PruneChoice>& choices, bool removed) {
  std::vector<TextRow> rows;
  core::Bytes gone;
  std::int64_t count = 0;
  for (const checkpoint::PruneChoice& choice : choices) {
    const char* const what = !choice.goes ? "stays" : removed ? "deleted" : "would go";
    rows.push_back(
        {choice.folder.filename().string(), core::human(choice.bytes), what, choice.why});
    if (!choice.goes) continue;
    gone += choice.bytes;
    ++count;
  }
  std::string text = table_of(rows);
  text += core::concat(core::counted(count, "folder"), removed ? " deleted, " : " would go, ",
                       core::human(gone), " (", gone.count(), " bytes)");
  return text + (removed || count == 0 ? "\n" : "; nothing was deleted: give --yes\n");
}

namespace {

// A flat index as [row, column].
std::string place_text(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> indices(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    indices[dim] = element % shape[dim];
    element /= shape[dim];
  }
  return checkpoint::shape_text(indices);
}

std::string line_of(const checkpoint::DifferingTensor& tensor) {
  const std::string head = tensor.role + " " + tensor.name + ": ";
  if (!tensor.problem.empty()) return head + tensor.problem + "\n";
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  const auto& numbers = tensor.numbers;
  std::string text = core::concat(head, numbers.elements, " of ", count, " (", tensor.types,
                                  ") differ, first at ", place_text(numbers.first, tensor.shape));
  if (numbers.max_abs < 0) return text + "\n";
  return text + core::concat("; largest ", number("%.9g", numbers.max_abs), " at ",
                             place_text(numbers.max_abs_at, tensor.shape), ", up to ",
                             number("%.6g", numbers.max_ulp), " ulp\n");
}

// Those without a counterpart first, then by the largest difference.
std::vector<checkpoint::DifferingTensor> by_size(const checkpoint::Comparison& comparison) {
  std::vector<checkpoint::DifferingTensor> sorted = comparison.differing;
  const auto size = [](const checkpoint::DifferingTensor& tensor) {
    return tensor.problem.empty() ? tensor.numbers.max_abs : HUGE_VAL;
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return size(a) > size(b); });
  return sorted;
}

std::string facts_text(const checkpoint::Comparison& comparison) {
  std::string text;
  std::int64_t printed = 0;
  for (const checkpoint::DifferingFact& fact : comparison.facts) {
    if (++printed > kMostFacts) continue;
    const auto shown = [](const std::string& value) {
      return value.empty() ? std::string("absent") : core::shortened(value);
    };
    text += core::concat(fact.counts ? "state " : "note ", fact.key, ": ", shown(fact.a), " | ",
                         shown(fact.b), "\n");
  }
  if (printed > kMostFacts) text += core::concat("and ", printed - kMostFacts, " more facts\n");
  return text;
}

}  // namespace

std::string comparison_text(const checkpoint::Comparison& comparison, std::int64_t most) {
  std::string text;
  std::int64_t left = most;
  for (const checkpoint::DifferingTensor& tensor : by_size(comparison)) {
    if (left-- > 0) text += line_of(tensor);
  }
  if (left < 0) text += core::concat("and ", -left, " more tensors; --most 0 prints all\n");
  text += facts_text(comparison);
  for (const std::string& note : comparison.notes) text += "not compared: " + note + "\n";
  return text + core::concat(comparison.same() ? "no difference" : "they differ", ": ",
                             core::counted(comparison.tensors, "tensor"), " and ",
                             core::counted(comparison.elements, "element"), " compared, ",
                             comparison.differing.size(), " differ\n");
}

std::string comparison_json(const checkpoint::Comparison& comparison) {
  ordered_json json = {{"same", comparison.same()},       {"tensors", comparison.tensors},
                       {"elements", comparison.elements}, {"differing", ordered_json::array()},
                       {"facts", ordered_json::array()},  {"notes", comparison.notes}};
  for (const checkpoint::DifferingTensor& tensor : comparison.differing) {
    const auto& numbers = tensor.numbers;
    ordered_json row = {{"role", tensor.role}, {"name", tensor.name}};
    if (!tensor.problem.empty()) {
      row["problem"] = tensor.problem;
    } else {  // what is infinite is no number of JSON: null
      row.update({{"types", tensor.types},
                  {"elements", numbers.elements},
                  {"first", numbers.first},
                  {"max_abs", numbers.max_abs},
                  {"max_abs_at", numbers.max_abs_at},
                  {"max_ulp", numbers.max_ulp}});
    }
    json["differing"].push_back(std::move(row));
  }
  for (const checkpoint::DifferingFact& fact : comparison.facts) {
    json["facts"].push_back(
        {{"key", fact.key}, {"a", fact.a}, {"b", fact.b}, {"counts", fact.counts}});
  }
  return dumped(json);
}

}  // namespace fm::cli

// What a metrics.jsonl holds (written by engine/shown/run_log.cc): numbers of steps in columns,
// starts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fm::report {

// In the order in which a run writes them, which makes reading quick.
enum class Field : std::uint8_t {
  kStep,
  kSamples,
  kEpoch,
  kLoss,
  kLearningRate,
  kGradNorm,
  kTokens,
  kTokensPerSecond,
  kGflops,
  kStepTime,
  kSkipped,
  kLossScale,
  kMemPeak,
  kEvalLoss,
  kPerplexity,
  kTime,
};
inline constexpr std::size_t kFieldCount = 16;

// One number per row; NaN where the row has none, or null.
using Column = std::vector<double>;

// One start of the program: a line {"start": ...}.
struct Start {
  double time = 0;  // unix seconds, NaN when unknown
  std::string version;
  std::int64_t from_step = 0;
  std::int64_t ranks = 0;                                       // 0: unknown
  std::vector<std::pair<std::string, std::string>> facts;       // name, value
  std::vector<std::pair<std::string, std::string>> lines = {};  // of the banner: name, words
};

// A run may be writing while its report is made: the file counts as long as it was when opened.
struct Metrics {
  std::array<Column, kFieldCount> columns;   // sorted by step, one row per step
  std::vector<std::string> phases;           // as found
  std::vector<std::vector<float>> phase_ms;  // of a phase, of a row
  std::vector<Start> starts;
  std::int64_t damaged_lines = 0;
  std::int64_t first_damaged_line = 0;  // 1: the first of the file
  std::int64_t replaced_rows = 0;       // of a step, all but the last one

  const Column& operator[](Field field) const { return columns[static_cast<std::size_t>(field)]; }
  std::size_t rows() const { return columns[0].size(); }
};

// Throws UserError (11) when the file is missing or no regular file.
Metrics read_metrics(const std::string& path);

Metrics parse_metrics(std::string_view text);

// One row of metrics.jsonl.

// Names beyond these are one phase, "further": damaged files must not cost memory without end.
inline constexpr std::size_t kMostPhases = 15;

struct Row {
  std::array<double, kFieldCount> values;
  std::array<float, kMostPhases + 1> phase_ms;
};

// Invariant: takes the same lines with the same numbers whether they are plain (as fmengine writes
//            them, read at some GB a second) or anything else that JSON allows.
class RowReader {
 public:
  // False when `line` is no JSON object, or a known field has a wrong type.
  bool read(std::string_view line, Row& row);
  // As read(), by the general JSON library alone.
  bool read_any(std::string_view line, Row& row);
  const std::vector<std::string>& phases() const { return phases_; }

 private:
  bool read_plain(std::string_view line, Row& row);
  std::size_t phase_at(std::string_view name);

  std::vector<std::string> phases_;
};

}  // namespace fm::report

// Who computes what when along the pipe, as boxes: from predicted times or from a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "observe/report/trace_step.h"

namespace fm::report {

enum class PipeWork : std::uint8_t {
  kForward,
  kBackward,  // of both halves, or of the input; a recomputation before it belongs to it
  kWeight,    // the half that waits for nothing
  kLoss,      // forward and backward of the head
  kState,     // reductions, norm, update: the end of the step
};
inline constexpr std::size_t kPipeWorks = 5;

// What one rank does without a break for one micro-batch in one of its chunks.
struct PipeBox {
  PipeWork work = PipeWork::kForward;
  std::int64_t micro = -1;
  unsigned chunk = 0;  // of the rank, from 0
  double begin = 0;    // of the panel's unit of time
  double end = 0;
};

enum class PipeMark : std::uint8_t { kGather, kSendAct, kSendGrad };
inline constexpr std::size_t kPipeMarks = 3;

struct PipeMarkAt {
  PipeMark mark = PipeMark::kGather;
  double time = 0;
};

struct PipeRow {
  std::string name;
  std::vector<PipeBox> boxes;  // by their begin
  std::vector<PipeMarkAt> marks;
};

struct PipePanel {
  std::string title;
  double length = 0;  // of the step
  std::vector<PipeRow> rows;

  // Computing: not kState.
  double busy(const PipeRow& row) const;
  // From the first box of any rank that computes to the last one's end.
  double span() const;
  // 1 - busy / span of a row, and of all rows together; 0 when there is nothing.
  double idle(const PipeRow& row) const;
  double bubble() const;
};

// What the JSON of engine/plan/pipe_prediction.h says.
struct PipePrediction {
  std::string schedule;
  unsigned micros = 0;
  unsigned data_ranks = 1;
  std::string unit;                     // of its times: "GFLOP", "ms"
  std::vector<unsigned> chunk_of_unit;  // of the unit's rank
  PipePanel panel;
};
// Nothing where `text` is not such JSON.
std::optional<PipePrediction> read_prediction(std::string_view text);

// The step of a trace in milliseconds. `chunk_of_unit` may be empty.
PipePanel measured_panel(const TraceStep& trace, const std::vector<unsigned>& chunk_of_unit);

}  // namespace fm::report

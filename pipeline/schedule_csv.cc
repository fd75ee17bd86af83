#include "pipeline/schedule_csv.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "core/check.h"
#include "core/text.h"
#include "pipeline/emitter.h"
#include "pipeline/passes.h"
#include "pipeline/schedule_study.h"

namespace fm::pipeline {
namespace {

constexpr int kMostNumber = 1'000'000;
constexpr std::string_view kOverlap = "OVERLAP_F_B";

struct ActionType {
  std::string_view word;
  Op op;
  bool computes;
  bool has_micro;
};
// A word comes before those that it begins with.
constexpr ActionType kTypes[] = {
    {"SEND_F", Op::kSendAct, false, true},      {"RECV_F", Op::kRecvAct, false, true},
    {"SEND_B", Op::kSendGrad, false, true},     {"RECV_B", Op::kRecvGrad, false, true},
    {"UNSHARD", Op::kGather, false, false},     {"RESHARD", Op::kRelease, false, false},
    {"REDUCE_GRAD", Op::kReduce, false, false}, {"F", Op::kForward, true, true},
    {"B", Op::kBackward, true, true},           {"I", Op::kBackwardInput, true, true},
    {"W", Op::kBackwardWeight, true, true}};

// The position of a cell, for messages.
struct CellPosition {
  const std::string& file;
  int row = 0;  // both from 1
  int cell = 0;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Removes the quotes in which spreadsheets write a cell.
std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? trimmed(text.substr(1, text.size() - 2)) : text;
}

// Removes the number at the front and returns it; nothing when there is none.
std::optional<int> take_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value >= kMostNumber) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Instruction::unit is the stage.
std::optional<Instruction> read_action(std::string_view text) {
  const std::optional<int> chunk = take_number(text);
  const auto* const type = std::ranges::find_if(
      kTypes, [&](const ActionType& each) { return text.starts_with(each.word); });
  if (!chunk || type == std::end(kTypes)) return std::nullopt;
  text.remove_prefix(type->word.size());
  const std::optional<int> micro = text.empty() ? std::nullopt : take_number(text);
  if (!text.empty() || micro.has_value() != type->has_micro) return std::nullopt;
  return Instruction{type->op, micro.value_or(-1), *chunk};
}

// The rows of a file: computing actions, and how many cells are gathers and reductions.
struct CsvRows {
  std::vector<Program> computing;
  int shard_cells = 0;
};

void read_cell(std::string_view cell, const CellPosition& place, CsvRows& rows) {
  std::string_view text = unquoted(cell);
  if (text.empty()) return;
  const std::size_t close = text.find(')');
  const bool together = text.front() == '(' && close != std::string_view::npos &&
                        trimmed(text.substr(close + 1)) == kOverlap;
  if (together) text = text.substr(1, close - 1);
  std::vector<std::string> actions = {std::string(text)};
  if (together) actions = core::split(text, ';');
  for (const std::string& word : actions) {
    const std::optional<Instruction> action = read_action(trimmed(word));
    FM_DATA_CHECK(action,
                  "a cell of a schedule must be an action such as 2F0, 1I3, 0B2 or "
                  "(0F7;7B3)OVERLAP_F_B; correct it (",
                  place.file, ", row ", place.row, ", cell ", place.cell, ": ",
                  std::string(text.substr(0, 80)), ")");
    const auto* const type =
        std::ranges::find_if(kTypes, [&](const ActionType& each) { return each.op == action->op; });
    if (type->computes) rows.computing.back().push_back(*action);
    if (!type->has_micro) ++rows.shard_cells;
  }
}

CsvRows read_rows(std::string_view text, const std::string& name) {
  std::vector<std::string> lines = core::split(core::without_byte_order_mark(text), '\n');
  while (!lines.empty() && trimmed(lines.back()).empty()) lines.pop_back();
  CsvRows rows;
  for (const std::string& line : lines) {
    CellPosition place{name, static_cast<int>(rows.computing.size()) + 1, 0};
    rows.computing.emplace_back();
    for (const std::string& cell : core::split(line, ',')) {
      ++place.cell;
      read_cell(cell, place, rows);
    }
    FM_DATA_CHECK(!rows.computing.back().empty(),
                  "every pipe rank must compute something; remove the row "
                  "or fill it (",
                  name, ", row ", place.row, ")");
  }
  FM_DATA_CHECK(!rows.computing.empty(),
                "a schedule must have a row for every pipe rank; write some (", name, ")");
  return rows;
}

PipeShape shape_of_rows(const std::vector<Program>& rows, const std::string& name) {
  std::map<int, int> owners;
  int micros = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (const Instruction& instruction : rows[rank]) {
      micros = std::max(micros, instruction.micro + 1);
      const auto owner = owners.try_emplace(instruction.unit, static_cast<int>(rank)).first->second;
      FM_DATA_CHECK(owner == static_cast<int>(rank),
                    "a stage must be on one pipe rank; correct "
                    "the rows (",
                    name, ": stage ", instruction.unit, " is in rows ", owner + 1, " and ",
                    rank + 1, ")");
    }
  }
  PipeShape shape{.pipe_ranks = static_cast<int>(rows.size()), .micros = micros};
  for (const auto& [chunk, owner] : owners) {
    FM_DATA_CHECK(chunk == static_cast<int>(shape.owners.size()),
                  "stages must be 0, 1, 2 and so "
                  "on; add the missing one (",
                  name, ": stage ", shape.owners.size(), ")");
    shape.owners.push_back(owner);
  }
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    shape.chunks = std::max(rank == 0 ? 1 : shape.chunks, shape.chunks_on(rank));
  }
  return shape;
}

// Requires each micro-batch once forward through each stage, then once backward, whole or in
// halves.
void check_row(const Program& row, int rank, const PipeShape& shape, const std::string& name) {
  std::map<std::pair<int, int>, std::string> done;  // by (stage, micro)
  for (const Instruction& instruction : row)
    done[{instruction.unit, instruction.micro}] += row_of(instruction.op).picture;
  for (int chunk = 0; chunk < shape.chunk_count(); ++chunk) {
    if (shape.owner_of_chunk(chunk) != rank) continue;
    for (int micro = 0; micro < shape.micros; ++micro) {
      const std::string& order = done[{chunk, micro}];
      FM_DATA_CHECK(order == "FB" || order == "FIW",
                    "a stage must run F and then B, or F, I and "
                    "W, once for each micro-batch; correct the row (",
                    name, ", row ", rank + 1, ": stage ", chunk, ", micro-batch ", micro, " has ",
                    order.empty() ? "nothing" : order, ")");
    }
  }
}

Program emitted(const Program& row, int rank, const PipeShape& shape) {
  std::map<int, int> local;  // by stage
  for (int chunk = 0; chunk < shape.chunks_on(rank); ++chunk) {
    local[shape.chunk_of(rank, chunk)] = chunk;
  }
  Emitter emit(shape, rank);
  for (const Instruction& instruction : row) {
    const int chunk = local.at(instruction.unit);
    if (instruction.op == Op::kForward) emit.forward(instruction.micro, chunk);
    if (instruction.op == Op::kBackward) emit.backward(instruction.micro, chunk);
    if (instruction.op == Op::kBackwardInput) emit.backward_input(instruction.micro, chunk);
    if (instruction.op == Op::kBackwardWeight) emit.backward_weight(instruction.micro, chunk);
  }
  return emit.finish();
}

// "" for an instruction that has no cell.
std::string cell_of(const Instruction& instruction, const std::vector<int>& chunk_of_unit) {
  const auto* const type = std::ranges::find_if(
      kTypes, [&](const ActionType& each) { return each.op == instruction.op; });
  if (type == std::end(kTypes) || instruction.unit < 0) return "";
  int unit = instruction.unit;
  if (instruction.op == Op::kSendAct) --unit;   // named by the unit that reads it
  if (instruction.op == Op::kSendGrad) ++unit;  // named by the unit that wrote its output
  const int chunk = chunk_of_unit[static_cast<std::size_t>(unit)];
  return core::concat(chunk, type->word, instruction.micro);
}

}  // namespace

OwnSchedule read_schedule_csv(std::string_view text, const std::string& name) {
  const CsvRows rows = read_rows(text, name);
  OwnSchedule own{name, shape_of_rows(rows.computing, name), {}, rows.shard_cells};
  for (int rank = 0; rank < own.shape.pipe_ranks; ++rank) {
    const Program& row = rows.computing[static_cast<std::size_t>(rank)];
    check_row(row, rank, own.shape, name);
    own.programs.push_back(emitted(row, rank, own.shape));
  }
  const std::string stuck = deadlock_of(own.programs, own.shape);
  FM_DATA_CHECK(stuck.empty(), "no pipe rank may wait for ever; change the order of the rows (",
                name, ": ", stuck, ")");
  return own;
}

std::string write_schedule_csv(const std::vector<Program>& scheduled, const PipeShape& shape,
                               CsvForm form) {
  const StudiedPrograms studied = lower_for_study(scheduled, shape);
  std::vector<int> chunk_of_unit;
  for (const Chunk& chunk : studied.units.chunks()) {
    const auto number = static_cast<int>(&chunk - studied.units.chunks().data());
    chunk_of_unit.insert(chunk_of_unit.end(), static_cast<std::size_t>(chunk.units.count()),
                         number);
  }
  std::string out;
  for (const Program& program : studied.lowered) {
    std::vector<std::string> cells;
    for (const Instruction& instruction : program) {
      const bool message = row_of(instruction.op).meets != OpRow::Meets::kNobody;
      if (message && form == CsvForm::kComputeOnly) continue;
      if (!message && !studied.units.is_block(instruction.unit)) continue;
      if (std::string cell = cell_of(instruction, chunk_of_unit); !cell.empty())
        cells.push_back(cell);
    }
    out += core::join(cells, ",") + "\n";
  }
  return out;
}

}  // namespace fm::pipeline

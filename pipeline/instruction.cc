#include "pipeline/instruction.h"

#include <array>
#include <charconv>
#include <sstream>

#include "core/check.h"

namespace fm::pipeline {
namespace {

using enum OpRow::Operand;
using enum OpRow::Meets;
using enum OpRow::Weights;
using enum Pool;
using When = BufferMove::When;

constexpr BufferMove kArrives[] = {{kHidden, +1, When::kAlways}};
constexpr BufferMove kLeaves[] = {{kHidden, -1, When::kAfterLeaving}};
constexpr BufferMove kForwardMoves[] = {{kHidden, +1, When::kAlways},  // the output
                                        {kKept, +1, When::kBlock},
                                        {kKept, -1, When::kPassingBlock},
                                        {kHidden, -1, When::kInnerBlock},
                                        {kHidden, -1, When::kFedForward}};
constexpr BufferMove kLossMoves[] = {{kHidden, -1, When::kGivesNothing}};  // else it works in place
constexpr BufferMove kRecomputeMoves[] = {{kKept, +1, When::kAlways},
                                          {kHidden, +1, When::kBeforeInner}};
constexpr BufferMove kBackwardMoves[] = {
    {kParked, +1, When::kAlways}, {kHidden, +1, When::kGives},  // the input's gradient
    {kHidden, -1, When::kAlways},                               // the output's gradient
    {kHidden, -1, When::kFed},                                  // the input
    {kKept, -1, When::kBlock},    {kParked, -1, When::kAlways}};
constexpr std::size_t kInputHalf = 3;  // of kBackwardMoves; the rest belongs to backward-weight

constexpr core::TraceForm traced(const char* name) {
  return {name, core::TraceKind::kInstruction, {"micro", "unit"}};
}

constexpr OpRow of_step(Op op, std::string_view picture, const char* name) {
  return {.op = op, .picture = picture, .trace = traced(name)};
}
constexpr OpRow of_micro(Op op, std::string_view picture, const char* name) {
  OpRow row = of_step(op, picture, name);
  row.micro = kAlways;
  return row;
}
constexpr OpRow of_unit(Op op, std::string_view picture, const char* name) {
  OpRow row = of_step(op, picture, name);
  row.unit = kAlways;
  return row;
}
constexpr OpRow meeting(OpRow row, OpRow::Meets meets, Op partner) {
  row.meets = meets;
  row.partner = partner;
  return row;
}
constexpr OpRow message(OpRow row, OpRow::Meets meets, Op partner,
                        std::span<const BufferMove> moves) {
  row.unit = kAlways;
  row.moves = moves;
  return meeting(row, meets, partner);
}
// An op of one micro-batch and one unit that takes the time of `forwards` forwards.
constexpr OpRow computing(Op op, std::string_view picture, const char* name, double forwards,
                          OpRow::Weights weights, std::span<const BufferMove> moves) {
  OpRow row = of_micro(op, picture, name);
  row.unit = kAlways;
  row.forwards = forwards;
  row.weights = weights;
  row.moves = moves;
  return row;
}
constexpr OpRow discardable(OpRow row) {
  row.discardable = true;
  return row;
}
constexpr OpRow forward_row() {
  OpRow row = computing(Op::kForward, "F", "forward", 1.0, kRead, kForwardMoves);
  row.makes_output = true;
  return row;
}
constexpr OpRow loss_row() {
  OpRow row = computing(Op::kLoss, "X", "loss", 3.0, kRead, kLossMoves);
  row.unit = kNever;
  row.makes_output = row.makes_input_gradient = row.writes_gradient = true;
  return row;
}
constexpr OpRow backward_row() {
  OpRow row = computing(Op::kBackward, "B", "backward", 2.0, kReadByBlocks, kBackwardMoves);
  row.makes_input_gradient = row.writes_gradient = true;
  return row;
}
constexpr OpRow input_row() {
  OpRow row = computing(Op::kBackwardInput, "I", "backward_input", 1.0, kReadByBlocks,
                        std::span(kBackwardMoves).first(kInputHalf));
  row.makes_input_gradient = true;
  return row;
}
constexpr OpRow weight_row() {
  OpRow row = computing(Op::kBackwardWeight, "W", "backward_weight", 1.0, kNotRead,
                        std::span(kBackwardMoves).subspan(kInputHalf));
  row.writes_gradient = true;
  return row;
}
constexpr OpRow reduce_row() {
  OpRow row = of_unit(Op::kReduce, "R", "reduce");
  row.micro = kMaybe;
  return row;
}

constexpr std::array<OpRow, kOpCount> kRows = {{
    discardable(of_step(Op::kCount, "K", "count")),
    discardable(of_micro(Op::kLoad, "L", "load")),
    discardable(message(of_micro(Op::kSendAct, "sa", "send_act"), kOwner, Op::kRecvAct, kLeaves)),
    discardable(
        message(of_micro(Op::kRecvAct, "ra", "recv_act"), kOwnerBefore, Op::kSendAct, kArrives)),
    message(of_micro(Op::kSendGrad, "sg", "send_grad"), kOwner, Op::kRecvGrad, kLeaves),
    message(of_micro(Op::kRecvGrad, "rg", "recv_grad"), kOwnerAfter, Op::kSendGrad, kArrives),
    discardable(of_unit(Op::kGather, "g", "gather")),
    discardable(of_unit(Op::kRelease, "r", "release")),
    discardable(forward_row()),
    loss_row(),
    backward_row(),
    input_row(),
    weight_row(),
    computing(Op::kRecompute, "C", "recompute", 1.0, kRead, kRecomputeMoves),
    reduce_row(),
    of_unit(Op::kRest, "z", "rest"),
    meeting(of_step(Op::kReduceTied, "Rt", "reduce_tied"), kTiedEnds, Op::kReduceTied),
    meeting(of_step(Op::kNorm, "N", "norm"), kEveryRank, Op::kNorm),
    of_step(Op::kNormPart, "Np", "norm_part"),
    meeting(of_step(Op::kRecvNorm, "rn", "recv_norm"), kRankBefore, Op::kSendNorm),
    meeting(of_step(Op::kSendNorm, "sn", "send_norm"), kRankBehind, Op::kRecvNorm),
    meeting(of_step(Op::kValidate, "V", "validate"), kEveryRank, Op::kValidate),
    of_unit(Op::kFetch, "f", "fetch"),
    of_unit(Op::kUpdate, "u", "update"),
    of_unit(Op::kStore, "s", "store"),
    of_unit(Op::kPublish, "p", "publish"),
    meeting(of_step(Op::kReport, "O", "report"), kEveryRank, Op::kReport),
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].op != static_cast<Op>(i)) return false;
  }
  return true;
}
static_assert(in_order());

// Removes the number at the front of `text` and returns it; -1 when there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool fits(OpRow::Operand rule, int value) {
  return rule == kMaybe || (rule == kAlways) == (value >= 0);
}

// Tries to read `word` as `row`; false when the picture or its operands do not fit.
bool read_as(const OpRow& row, std::string_view word, Instruction& out) {
  if (!word.starts_with(row.picture)) return false;
  word.remove_prefix(row.picture.size());
  out = {row.op, take_number(word), -1};
  if (word.starts_with('.')) {
    word.remove_prefix(1);
    out.unit = take_number(word);
    if (out.unit < 0) return false;
  }
  return word.empty() && fits(row.micro, out.micro) && fits(row.unit, out.unit);
}

Instruction read_word(std::string_view word) {
  Instruction out;
  for (const OpRow& row : kRows) {
    if (read_as(row, word, out)) return out;
  }
  FM_USER_CHECK(false, "a program is made of instructions such as L0 F0.1 X0 B0.1 R.1 N u.1 O; ",
                "correct the word that is none (", word, ")");
}

}  // namespace

const OpRow& row_of(Op op) { return kRows[static_cast<std::size_t>(op)]; }

std::string print(const Instruction& instruction) {
  std::string out(row_of(instruction.op).picture);
  if (instruction.micro >= 0) out += std::to_string(instruction.micro);
  if (instruction.unit >= 0) out += "." + std::to_string(instruction.unit);
  return out;
}

std::string print(const Program& program) {
  std::string out;
  for (const Instruction& instruction : program) out += print(instruction) + " ";
  return out;
}

Program parse(std::string_view pictures) {
  Program program;
  std::istringstream words{std::string(pictures)};
  for (std::string word; words >> word;) program.push_back(read_word(word));
  return program;
}

}  // namespace fm::pipeline

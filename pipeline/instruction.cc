#include "pipeline/instruction.h"

#include <array>
#include <charconv>
#include <sstream>

#include "core/check.h"

namespace fm::pipeline {
namespace {

using enum OpForm::Operand;

constexpr std::array<OpForm, 22> kForms = {{
    {Op::kCount, "K", kNever, kNever},
    {Op::kLoad, "L", kAlways, kNever},
    {Op::kSendAct, "sa", kAlways, kNever},
    {Op::kRecvAct, "ra", kAlways, kNever},
    {Op::kSendGrad, "sg", kAlways, kNever},
    {Op::kRecvGrad, "rg", kAlways, kNever},
    {Op::kGather, "g", kNever, kAlways},
    {Op::kRelease, "r", kNever, kAlways},
    {Op::kForward, "F", kAlways, kAlways},
    {Op::kLoss, "X", kAlways, kNever},
    {Op::kBackward, "B", kAlways, kAlways},
    {Op::kBackwardInput, "I", kAlways, kAlways},
    {Op::kBackwardWeight, "W", kAlways, kAlways},
    {Op::kRecompute, "C", kAlways, kAlways},
    {Op::kReduce, "R", kMaybe, kAlways},
    {Op::kReduceTied, "Rt", kNever, kNever},
    {Op::kNorm, "N", kNever, kNever},
    {Op::kFetch, "f", kNever, kAlways},
    {Op::kUpdate, "u", kNever, kAlways},
    {Op::kStore, "s", kNever, kAlways},
    {Op::kPublish, "p", kNever, kAlways},
    {Op::kReport, "O", kNever, kNever},
}};

// The number at the front of `text`, cut off from it; -1 when there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool fits(OpForm::Operand rule, int value) {
  return rule == kMaybe || (rule == kAlways) == (value >= 0);
}

// Tries to read `word` as `form`; false when the picture or its operands do not fit.
bool read_as(const OpForm& form, std::string_view word, Instruction& out) {
  if (!word.starts_with(form.picture)) return false;
  word.remove_prefix(form.picture.size());
  out = {form.op, take_number(word), -1};
  if (word.starts_with('.')) {
    word.remove_prefix(1);
    out.unit = take_number(word);
    if (out.unit < 0) return false;
  }
  return word.empty() && fits(form.micro, out.micro) && fits(form.unit, out.unit);
}

Instruction read_word(std::string_view word) {
  Instruction out;
  for (const OpForm& form : kForms) {
    if (read_as(form, word, out)) return out;
  }
  FM_USER_CHECK(false, "a program is made of instructions such as L0 F0.1 X0 B0.1 R.1 N u.1 O; ",
                "correct the word that is none (", word, ")");
}

}  // namespace

const OpForm& form_of(Op op) { return kForms[static_cast<std::size_t>(op)]; }

std::string print(const Instruction& instruction) {
  std::string out(form_of(instruction.op).picture);
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

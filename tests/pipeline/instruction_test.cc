#include "pipeline/instruction.h"

#include <gtest/gtest.h>

#include <set>

#include "core/check.h"

namespace fm::pipeline {
namespace {

struct Written {
  Instruction instruction;
  std::string picture;
};

// The pictures of the design, one per op and form.
const std::vector<Written>& all_pictures() {
  static const std::vector<Written> kAll = {
      {{Op::kCount, -1, -1}, "K"},           {{Op::kLoad, 0, -1}, "L0"},
      {{Op::kSendAct, 12, 4}, "sa12.4"},     {{Op::kRecvAct, 0, 4}, "ra0.4"},
      {{Op::kSendGrad, 0, 3}, "sg0.3"},      {{Op::kRecvGrad, 7, 3}, "rg7.3"},
      {{Op::kGather, -1, 3}, "g.3"},         {{Op::kRelease, -1, 3}, "r.3"},
      {{Op::kForward, 0, 3}, "F0.3"},        {{Op::kLoss, 0, -1}, "X0"},
      {{Op::kBackward, 0, 3}, "B0.3"},       {{Op::kBackwardInput, 0, 3}, "I0.3"},
      {{Op::kBackwardWeight, 0, 3}, "W0.3"}, {{Op::kRecompute, 0, 3}, "C0.3"},
      {{Op::kReduce, -1, 3}, "R.3"},         {{Op::kReduce, 0, 3}, "R0.3"},
      {{Op::kReduceTied, -1, -1}, "Rt"},     {{Op::kNorm, -1, -1}, "N"},
      {{Op::kFetch, -1, 3}, "f.3"},          {{Op::kUpdate, -1, 3}, "u.3"},
      {{Op::kStore, -1, 3}, "s.3"},          {{Op::kPublish, -1, 120}, "p.120"},
      {{Op::kNormPart, -1, -1}, "Np"},       {{Op::kRecvNorm, -1, -1}, "rn"},
      {{Op::kSendNorm, -1, -1}, "sn"},       {{Op::kValidate, -1, -1}, "V"},
      {{Op::kReport, -1, -1}, "O"},          {{Op::kRest, -1, 3}, "z.3"},
  };
  return kAll;
}

TEST(Instruction, PrintsThePicturesOfTheDesign) {
  for (const Written& each : all_pictures()) EXPECT_EQ(print(each.instruction), each.picture);
}

TEST(Instruction, ParsesThePicturesOfTheDesign) {
  for (const Written& each : all_pictures()) {
    EXPECT_EQ(parse(each.picture), Program{each.instruction}) << each.picture;
  }
}

TEST(Instruction, ThePicturesAboveShowEveryOp) {
  std::set<Op> seen;
  for (const Written& each : all_pictures()) seen.insert(each.instruction.op);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(Op::kReport) + 1);
}

TEST(Instruction, AProgramHasOneSpaceAfterEveryInstruction) {
  const std::string text = "K L0 F0.0 X0 B0.0 R.0 N u.0 O ";
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_EQ(parse("  K\n L0\tO"), parse("K L0 O "));
  EXPECT_EQ(parse(""), Program{});
}

TEST(Instruction, WhatIsNoInstructionIsRefusedByName) {
  for (const std::string bad :
       {"Q0",  "F0",  "F.3", "F0.",  "F0.x", "F0.3.1",       "F0.3x", "F-1.3", "K1",   "K.", "L0.",
        "K.1", "L",   "L.1", "X0.1", "sa0",  "sa.0",         "g3",    "g",     "g0.3", "R",  "R0",
        "R.",  "Rt0", "N1",  "O.0",  "u0.1", "L99999999999", "f",     "k",     "x0"}) {
    try {
      parse("L0 " + bad + " O");
      FAIL() << bad << " was accepted";
    } catch (const core::UserError& error) {
      EXPECT_NE(std::string(error.what()).find("(" + bad + ")"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace fm::pipeline

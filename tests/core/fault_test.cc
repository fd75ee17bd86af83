#include "core/fault.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace fm::core {
namespace {

class Fault : public ::testing::Test {
 protected:
  void TearDown() override { arm_faults(""); }
};

TEST_F(Fault, NothingHappensWhenNothingIsArmed) {
  arm_faults("");
  EXPECT_EQ(fault({"ckpt.S3", 1, 57}), FaultEffect::kNone);
}

TEST_F(Fault, HitsOnlyItsPointRankAndStep) {
  arm_faults("rank=1,step=57,point=ckpt.S3,action=eio");
  EXPECT_EQ(fault({"ckpt.S3", 1, 57}), FaultEffect::kIoError);
  EXPECT_EQ(fault({"ckpt.S4", 1, 57}), FaultEffect::kNone);
  EXPECT_EQ(fault({"ckpt.S3", 0, 57}), FaultEffect::kNone);
  EXPECT_EQ(fault({"ckpt.S3", 1, 56}), FaultEffect::kNone);
}

TEST_F(Fault, WithoutRankAndStepHitsEverywhere) {
  arm_faults("point=a,action=enospc;point=b,action=nan");
  EXPECT_EQ(fault({"a", 3, 9}), FaultEffect::kNoSpace);
  EXPECT_EQ(fault({"b", 0, 1}), FaultEffect::kNan);
}

TEST_F(Fault, ThrowIsADefectThatNamesThePoint) {
  arm_faults("point=a,action=throw");
  try {
    fault({"a"});
    FAIL() << "nothing was thrown";
  } catch (const BugError& error) {
    EXPECT_NE(std::string(error.what()).find("injected fault at a"), std::string::npos);
  }
}

TEST_F(Fault, KillAndExitEndTheProcess) {
  EXPECT_EXIT((arm_faults("point=a,action=exit:26"), fault({"a"})), ::testing::ExitedWithCode(26),
              "injected fault at a");
  EXPECT_EXIT((arm_faults("point=a,action=kill"), fault({"a"})), ::testing::KilledBySignal(SIGKILL),
              "injected fault at a");
  EXPECT_EXIT((arm_faults("point=a,action=signal:15"), fault({"a"})),
              ::testing::KilledBySignal(SIGTERM), "injected fault at a");
}

TEST_F(Fault, WhatCannotBeUnderstoodIsRefusedByName) {
  for (const char* text : {"point=a", "action=kill", "point=a,action=melt", "point=a,action=exit",
                           "point=a,action=exit:x", "rank=one,point=a,action=eio", "colour=red"}) {
    try {
      arm_faults(text);
      FAIL() << text;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfigError);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace fm::core

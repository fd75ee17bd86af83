// What is said where a machine has no GPU that can be used.
#include <gtest/gtest.h>

#include "core/check.h"
#include "core/process.h"
#include "device/cuda_problem.h"

namespace fm::device {
namespace {

CudaAnswers answers(int error) {
  CudaAnswers answers;
  answers.built = true;
  answers.error = error;
  answers.runtime_version = 13000;
  return answers;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CudaProblem, ThereIsNone) {
  CudaAnswers good = answers(0);
  good.count = 2;
  EXPECT_EQ(problem_of(good), "");
}

TEST(CudaProblem, ABuildWithoutCudaSaysWhatMayHaveBeenMissing) {
  for (const char* const part : {"nvcc 13 or a header was missing (cublasLt.h, nccl.h)",
                                 "FM_CUDA=OFF left it out", "FM_CUDA=ON scripts/build.sh"}) {
    expect_part(problem_of({}), part);
  }
}

TEST(CudaProblem, NoDriverAndAnOldOneAreToldApart) {
  CudaAnswers none = answers(35);
  expect_part(problem_of(none), "which is not installed here");
  expect_part(problem_of(none), "--device cpu");
  none.files = {"/dev/nvidia0"};
  expect_part(problem_of(none), "this machine has /dev/nvidia0");
  CudaAnswers old = answers(35);
  old.driver_found = true;
  old.driver_version = 12040;
  expect_part(problem_of(old), "must be 580 or newer");
  expect_part(problem_of(old), "it knows CUDA 12.4, this build was made with 13.0");
}

TEST(CudaProblem, NoDeviceSaysWhatTheVariableHides) {
  expect_part(problem_of(answers(100)), "in a container that it was started with its GPUs");
  for (const int error : {0, 100, 101}) {
    CudaAnswers hidden = answers(error);
    hidden.visible = "7";
    hidden.files = {"/dev/nvidia0", "/dev/nvidia1"};
    expect_part(problem_of(hidden),
                "CUDA_VISIBLE_DEVICES=7; this machine has /dev/nvidia0, /dev/nvidia1");
  }
}

TEST(CudaProblem, EveryOtherAnswerHasACure) {
  expect_part(problem_of(answers(46)), "another one has it for itself");
  expect_part(problem_of(answers(802)), "nvidia-fabricmanager");
  expect_part(problem_of(answers(803)), "of one version");
  expect_part(problem_of(answers(999)), "CUDA error 999");
}

TEST(CudaProblem, OnlyWhatAnotherStartMayFindMendedIsAFault) {
  for (const int error : {0, 35, 100, 101}) EXPECT_FALSE(is_fault(answers(error))) << error;
  for (const int error : {46, 802, 803, 999}) EXPECT_TRUE(is_fault(answers(error))) << error;
  EXPECT_FALSE(is_fault({}));
  require_none("", true);
  EXPECT_THROW(require_none("no card", false), core::UserError);
  try {
    require_none("not ready", true);
    FAIL();
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kDeviceFailed);
    expect_part(error.what(), "not ready (on " + core::host_name() + ")");
  }
}

TEST(CudaProblem, ACardIsLostWhereTheMachineHasMoreThanAllThatAreShown) {
  CudaAnswers seen = answers(0);
  seen.count = 1;
  seen.files = {"/dev/nvidia0"};
  EXPECT_FALSE(has_lost_cards(seen));
  seen.files.emplace_back("/dev/nvidia1");
  EXPECT_TRUE(has_lost_cards(seen));
  seen.visible = "0";
  EXPECT_FALSE(has_lost_cards(seen));
}

TEST(CudaProblem, AFullCardSaysWhatForAndWhatIsLeft) {
  const std::string text =
      full_text("GPU 3 of node7", "the work space of products", "1 GB of 80 GB");
  expect_part(text, "memory for the work space of products; see `nvidia-smi`");
  expect_part(text, "GPU 3 of node7; free: 1 GB of 80 GB");
}

TEST(CudaProblem, FaultsNameTheCardAndTheKernel) {
  const auto text = [](int error) { return fault_text(error, "GPU 3 (H100)", "why", "adamw"); };
  for (const int error : {46, 209, 214, 222, 700, 719}) {
    expect_part(text(error), "GPU 3 (H100), in or before adamw");
    expect_part(text(error), "CUDA error " + std::to_string(error));
  }
  expect_part(text(214), "ECC");
  expect_part(text(209), "architecture");
  expect_part(text(46), "another one has it for itself");
  expect_part(text(700), "FME_DEVICE_CHECK=1");
  expect_part(text(719), "dmesg | grep -i xid");
}

TEST(CudaProblem, ArchitecturesOfThisBuild) {
  EXPECT_FALSE(runs_on(75));
  for (const int architecture : {80, 86, 89, 90, 100, 103, 120}) EXPECT_TRUE(runs_on(architecture));
}

}  // namespace
}  // namespace fm::device

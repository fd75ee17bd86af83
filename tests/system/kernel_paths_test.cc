// Each path of the kernels that a CPU does not take by itself trains the same model.
#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

constexpr int kSteps = 8;

class KernelPaths : public SystemCase {
 protected:
  // `banner` must stand in what the run prints.
  StepTexts losses(const std::vector<std::string>& variables, const std::string& banner) {
    const std::filesystem::path output = folder() / core::concat("run", runs_++);
    const Ended ended = run_well({.starter = Starter::kMpirun,
                                  .ranks = 2,
                                  .words = words_of({.config = small_config(folder(), 2),
                                                     .model = small_model(folder()),
                                                     .data = small_tokens(folder(), 64),
                                                     .output = output,
                                                     .steps = kSteps,
                                                     .more = {}}),
                                  .variables = variables});
    EXPECT_NE(unwrapped(ended.out).find(banner), std::string::npos) << ended.out;
    return numbers_in(output, "loss");
  }

  // The largest relative difference; the steps must be the same.
  static double distance(const StepTexts& a, const StepTexts& b) {
    EXPECT_EQ(a.size(), static_cast<std::size_t>(kSteps));
    EXPECT_EQ(b.size(), a.size());
    double most = 0.0;
    for (const auto& [step, text] : a) {
      most = std::max(most, std::abs(std::stod(b.at(step)) / std::stod(text) - 1.0));
    }
    return most;
  }

 private:
  int runs_ = 0;
};

// Products may round differently; 2e-5 is what the losses may be away from the oracle's.
TEST_F(KernelPaths, EveryKindOfProductGivesTheLossesWithinTheirRounding) {
  const StepTexts usual = losses({}, "");
  EXPECT_LE(distance(usual, losses({"FME_GEMM=onednn"}, ", products oneDNN ")), 2e-5);
  EXPECT_LE(distance(usual, losses({"FME_GEMM=packed"}, "), small products by ")), 2e-5);
  EXPECT_LE(distance(usual, losses({"FME_GEMM=mixed"}, ", dy W and small products by ")), 2e-5);
}

TEST_F(KernelPaths, EveryInstructionSetGivesTheSameBits) {
  const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (!has_avx2) GTEST_SKIP() << "this CPU has no AVX2";
  const StepTexts usual = losses({"FME_GEMM=onednn"}, "");
  for (const std::string set : {"baseline", "avx2"}) {
    SCOPED_TRACE(set);
    EXPECT_EQ(usual, losses({"FME_GEMM=onednn", "FME_SIMD=" + set}, " " + set));
  }
}

}  // namespace
}  // namespace fm::system

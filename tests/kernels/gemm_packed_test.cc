// Products of packed panels on several threads, and which products they are chosen for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "core/check.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"
#include "kernels/variants/variant.h"
#include "tests/kernels/gemm_product.h"

namespace fm::kernels {
namespace {

TEST(PackedGemm, ThreadsShareTheWorkAndChangeNoBit) {
  for (const GemmShape& shape : {GemmShape{300, 90, 70}, GemmShape{50, 500, 70}}) {
    for (const Form form : kForms) {
      const RandomProduct<float> p{shape, form, form};
      const Floats a = p.random_a();
      const Floats b = p.random_b();
      const auto product = [&](int threads) {
        Floats c(static_cast<std::size_t>(shape.m * shape.n), NAN);
        std::thread([&] {
          set_kernel_threads(threads);
          packed_gemm(shape, p.left(a), p.right(b), {c.data(), shape.n});
        }).join();
        return c;
      };
      const Floats alone = product(1);
      EXPECT_LT(relative_rms(p, a, b, alone), 1e-6);
      for (const int threads : {2, 3, 7}) EXPECT_EQ(product(threads), alone) << threads;
    }
  }
}

// Products that two programs compute differ in their bits.
TEST(GemmKind, MixedIsOneDnnForOperandsAsTheyLieAlone) {
  if (chosen_gemm() != GemmKind::kMixed) GTEST_SKIP() << "this CPU does not choose it";
  for (const Form a_form : kForms) {
    for (const Form b_form : kForms) {
      const RandomProduct<float> p{{64, 80, 700}, a_form, b_form};
      const Floats a = p.random_a();
      const Floats b = p.random_b();
      const auto of = [&](const auto& product) {
        Floats c(std::size_t{64} * 80);
        product(p.shape, p.left(a), p.right(b), Target<float>{c.data(), 80});
        return c;
      };
      using Function = void(const GemmShape&, const Operand<float>&, const Operand<float>&,
                            const Target<float>&);
      const Floats got = of([](const auto&... of_gemm) { gemm(core::Work{}, of_gemm...); });
      const bool by_panels = a_form != Form::kAsIs || b_form != Form::kAsIs;
      EXPECT_EQ(got == of(static_cast<Function*>(packed_gemm)), by_panels);
      EXPECT_EQ(got == of(static_cast<Function*>(onednn_gemm)), !by_panels);
    }
  }
}

TEST(PackedGemm, WhatIsNotFiniteStaysInItsRow) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    expect_only_its_row_is_not_finite(bad, std::isinf(bad),
                                      [](const auto&... arguments) { packed_gemm(arguments...); });
  }
}

TEST(GemmKind, FollowsTheCpuOrTheVariable) {
  const std::string_view name = chosen_variant().name;
  const bool mixed = name == "avx512" && cpu_is_amd();
  const GemmKind without_amx = name == "avx2" ? GemmKind::kPacked
                               : mixed        ? GemmKind::kMixed
                                              : GemmKind::kOneDnn;
  EXPECT_EQ(choose_gemm(""), amx_runs_here() ? GemmKind::kAmx : without_amx);
  EXPECT_EQ(choose_gemm("packed"), GemmKind::kPacked);
  EXPECT_EQ(choose_gemm("mixed"), GemmKind::kMixed);
  EXPECT_EQ(choose_gemm("onednn"), GemmKind::kOneDnn);
  EXPECT_THROW(choose_gemm("mkl"), core::UserError);
  if (amx_runs_here()) {
    EXPECT_EQ(choose_gemm("amx"), GemmKind::kAmx);
  } else {
    EXPECT_THROW(choose_gemm("amx"), core::UserError);
  }
}

}  // namespace
}  // namespace fm::kernels

#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <thread>

#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

struct Case {
  GemmShape shape;
  Form a;
  Form b;
  std::int64_t slack;  // leading dimensions exceed the row length by this much
};

// Element (row, column) of op(X).
double element(const Operand<float>& x, std::int64_t row, std::int64_t column) {
  return static_cast<double>(x.form == Form::kAsIs ? x.data[row * x.stride + column]
                                                   : x.data[column * x.stride + row]);
}

void expect_product(const Case& c) {
  const auto [m, n, k] = c.shape;
  const std::int64_t a_width = (c.a == Form::kAsIs ? k : m) + c.slack;
  const std::int64_t b_width = (c.b == Form::kAsIs ? n : k) + c.slack;
  const Floats a = random_values(a_width * (c.a == Form::kAsIs ? m : k), 1);
  const Floats b = random_values(b_width * (c.b == Form::kAsIs ? k : n), 2);
  const std::int64_t c_width = n + c.slack;
  const Operand<float> left{a.data(), a_width, c.a};
  const Operand<float> right{b.data(), b_width, c.b};
  Floats got(static_cast<std::size_t>(c_width * m), NAN);  // beta 0 must not read it
  gemm({}, c.shape, left, right, {got.data(), c_width, Beta::kZero});
  gemm({}, c.shape, left, right, {got.data(), c_width, Beta::kOne});
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0.0;
      for (std::int64_t i = 0; i < k; ++i) sum += element(left, row, i) * element(right, i, column);
      ASSERT_NEAR(static_cast<double>(got[static_cast<std::size_t>(row * c_width + column)]),
                  2.0 * sum, 4e-6 * static_cast<double>(k));
    }
    for (std::int64_t column = n; column < c_width; ++column) {  // beyond the row: untouched
      ASSERT_TRUE(std::isnan(got[static_cast<std::size_t>(row * c_width + column)]));
    }
  }
}

TEST(Gemm, EqualsThreeLoopsInAllFormsWithLeadingDimensions) {
  for (const GemmShape shape : {GemmShape{1, 1, 1}, GemmShape{7, 5, 3}, GemmShape{74, 96, 250},
                                GemmShape{1, 777, 96}, GemmShape{96, 33, 1}}) {
    for (const Form a : {Form::kAsIs, Form::kTransposed}) {
      for (const Form b : {Form::kAsIs, Form::kTransposed}) {
        for (const std::int64_t slack : {0, 3}) expect_product({shape, a, b, slack});
      }
    }
  }
}

TEST(Gemm, AnAddendElsewhereHasTheBitsOfOneInPlace) {
  const Floats a = random_values(40 * 96, 1);
  const Floats b = random_values(96 * 50, 2);
  for (const std::int64_t stride : {50, 53}) {
    const Floats addend = random_values(40 * stride, 3);
    Floats in_place = addend;
    gemm({}, {40, 50, 96}, {a.data(), 96}, {b.data(), 50}, {in_place.data(), stride, Beta::kOne});
    Floats apart(addend.size(), 7.0F);
    gemm({}, {40, 50, 96}, {a.data(), 96}, {b.data(), 50},
         {apart.data(), stride, Beta::kOne, addend.data()});
    for (std::size_t i = 0; i < apart.size(); ++i) {
      const bool between = static_cast<std::int64_t>(i) % stride >= 50;
      ASSERT_EQ(apart[i], between ? 7.0F : in_place[i]) << i;
    }
  }
}

TEST(Gemm, RepeatsItselfBitForBitFromSeveralThreads) {
  const Floats a = random_values(80 * 300, 1);
  const Floats b = random_values(300 * 90, 2);
  std::vector<Floats> results(4, Floats(80 * 90));
  std::vector<std::thread> threads;
  for (Floats& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        gemm({}, {80, 90, 300}, {a.data(), 300}, {b.data(), 90}, {result.data(), 90});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Floats& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Gemm, TwoThreadsRepeatTheSameBitsAndAgreeWithOne) {
  const Floats a = random_values(256 * 512, 1);
  const Floats b = random_values(512 * 256, 2);
  const auto product = [&](int threads) {
    Floats result(256 * 256);
    std::thread([&] {
      gemm({.arena = {}, .threads = threads}, {256, 256, 512}, {a.data(), 512}, {b.data(), 256},
           {result.data(), 256});
      EXPECT_EQ(kernel_threads(), threads);
    }).join();
    return result;
  };
  const Floats first = product(2);
  EXPECT_EQ(product(2), first);
  EXPECT_LT(difference(to_double(product(1)), first), 1e-6);
}

TEST(Gemm, NamesItsLibrary) {
  EXPECT_TRUE(onednn_name().starts_with("oneDNN 2.")) << onednn_name();
  std::string own;
  switch (chosen_gemm()) {
    case GemmKind::kAmx: own = "AMX (fp32 as three bf16 parts), small products by "; break;
    case GemmKind::kPacked: own = "packed panels (avx2), small products by "; break;
    case GemmKind::kMixed: own = "packed panels (avx512), dy W and small products by "; break;
    case GemmKind::kOneDnn: break;
  }
  EXPECT_EQ(gemm_library(core::DType::kF32), own + onednn_name());
}

TEST(KernelThreads, BelongToTheCaller) {
  set_kernel_threads(1);
  std::thread([] {
    set_kernel_threads(3);
    EXPECT_EQ(kernel_threads(), 3);
  }).join();
  EXPECT_EQ(kernel_threads(), 1);
}

}  // namespace
}  // namespace fm::kernels

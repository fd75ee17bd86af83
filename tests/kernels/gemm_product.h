// Products of random operands in every layout, and their elements in fp64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/element.h"
#include "kernels/gemm/gemm.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {

inline constexpr Form kForms[] = {Form::kAsIs, Form::kTransposed};

// Elements of the operands and of the result that a library multiplies.
template <class T_, class C_>
struct ProductTypes {
  using T = T_;
  using C = C_;
};
using AllProductTypes =
    testing::Types<ProductTypes<float, float>, ProductTypes<core::Bf16, float>,
                   ProductTypes<core::Bf16, core::Bf16>, ProductTypes<core::F16, float>,
                   ProductTypes<core::F16, core::F16>>;
// Of its relative error against fp64.
template <class C>
constexpr double kProductTolerance = std::is_same_v<C, float>        ? 1e-5
                                     : std::is_same_v<C, core::Bf16> ? 5e-3
                                                                     : 1e-3;

template <class T>
struct RandomProduct {
  GemmShape shape;
  Form a_form = Form::kAsIs;
  Form b_form = Form::kAsIs;
  std::int64_t slack = 0;  // leading dimensions exceed the row length by this much

  std::int64_t a_width() const { return (a_form == Form::kAsIs ? shape.k : shape.m) + slack; }
  std::int64_t b_width() const { return (b_form == Form::kAsIs ? shape.n : shape.k) + slack; }
  std::int64_t c_width() const { return shape.n + slack; }
  std::vector<T> random_a() const {
    return random(a_width() * (a_form == Form::kAsIs ? shape.m : shape.k), 1);
  }
  std::vector<T> random_b() const {
    return random(b_width() * (b_form == Form::kAsIs ? shape.k : shape.n), 2);
  }
  Operand<T> left(const std::vector<T>& a) const { return {a.data(), a_width(), a_form}; }
  Operand<T> right(const std::vector<T>& b) const { return {b.data(), b_width(), b_form}; }

 private:
  static std::vector<T> random(std::int64_t count, std::uint32_t seed) {
    std::vector<T> values;
    values.reserve(static_cast<std::size_t>(count));
    for (const float value : random_values(count, seed)) {
      values.push_back(core::to_element<T>(value));
    }
    return values;
  }
};

// Element (row, column) of op(X).
template <class T>
double element(const Operand<T>& x, std::int64_t row, std::int64_t column) {
  return static_cast<double>(core::to_float(
      x.form == Form::kAsIs ? x.data[row * x.stride + column] : x.data[column * x.stride + row]));
}

template <class T>
double exact(const Operand<T>& a, const Operand<T>& b, std::int64_t row, std::int64_t column,
             std::int64_t k) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < k; ++i) sum += element(a, row, i) * element(b, i, column);
  return sum;
}

// Of the errors of C, over that of C.
template <class T>
double relative_rms(const RandomProduct<T>& p, const std::vector<T>& a, const std::vector<T>& b,
                    const Floats& c) {
  double error = 0.0;
  double square = 0.0;
  for (std::int64_t row = 0; row < p.shape.m; ++row) {
    for (std::int64_t column = 0; column < p.shape.n; ++column) {
      const double wanted = exact(p.left(a), p.right(b), row, column, p.shape.k);
      const auto got = static_cast<double>(c[static_cast<std::size_t>(row * p.shape.n + column)]);
      error += (got - wanted) * (got - wanted);
      square += wanted * wanted;
    }
  }
  return std::sqrt(error / square);
}

// A `bad` number, infinite or not a number, in row 5 of A leaves only numbers in the other rows of
// C and none in that one; `infinite` ones only, or none.
template <class T, class Function>
void expect_only_its_row_is_not_finite(T bad, bool infinite, const Function& product) {
  const RandomProduct<T> p{{32, 32, 32}};
  std::vector<T> a = p.random_a();
  const std::vector<T> b = p.random_b();
  a[5 * 32 + 7] = bad;
  std::vector<T> c(32 * 32);
  product(p.shape, p.left(a), p.right(b), Target<T>{c.data(), 32});
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool in_row = i / 32 == 5;
    ASSERT_EQ(std::isfinite(core::to_float(c[i])), !in_row) << core::to_float(bad) << ", " << i;
    ASSERT_EQ(std::isinf(core::to_float(c[i])), in_row && infinite) << core::to_float(bad);
  }
}

}  // namespace fm::kernels

// Products by NVIDIA's cuBLASLt on a card, in memory of the card, against fp64.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/emulated/emulated_case.h"
#include "tests/kernels/gemm_product.h"
#include "tests/on_device/on_card.h"

namespace fm::emulated {
namespace {

using core::Bf16;
using core::F16;
using kernels::Beta;
using kernels::Form;
using kernels::GemmShape;
using kernels::kForms;
using kernels::RandomProduct;

template <class Both>
class ProductsOnCard : public testing::Test {
 protected:
  using T = typename Both::T;
  using C = typename Both::C;

  // `every`: of so many rows and columns one is compared. What the library refuses is a failure,
  // and the next product is looked at.
  void expect(const RandomProduct<T>& p, Beta beta, bool apart, std::int64_t every = 1) {
    try {
      compare(p, beta, apart, every);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }

 private:
  void compare(const RandomProduct<T>& p, Beta beta, bool apart, std::int64_t every) {
    const std::vector<T> a = p.random_a();
    const std::vector<T> b = p.random_b();
    std::vector<C> before(static_cast<std::size_t>(p.c_width() * p.shape.m));
    const std::vector<float> added = kernels::random_values(std::ssize(before), 3);
    std::ranges::transform(added, before.begin(),
                           [](float value) { return core::to_element<C>(value); });
    const OnCard<T> a_there(a);
    const OnCard<T> b_there(b);
    const OnCard<C> addend(before);
    const OnCard<C> c_there(before);
    run(p, {a_there.data(), p.a_width(), p.a_form}, {b_there.data(), p.b_width(), p.b_form},
        {c_there.data(), p.c_width(), beta, apart ? addend.data() : nullptr});
    const std::vector<C> c = c_there.read();
    double error = 0.0;
    double square = 0.0;
    for (std::int64_t row = 0; row < p.shape.m; row += every) {
      for (std::int64_t column = 0; column < p.shape.n; column += every) {
        const auto place = static_cast<std::size_t>(row * p.c_width() + column);
        double wanted = kernels::exact(p.left(a), p.right(b), row, column, p.shape.k);
        if (beta == Beta::kOne) wanted += static_cast<double>(core::to_float(before[place]));
        const double off = static_cast<double>(core::to_float(c[place])) - wanted;
        error += off * off;
        square += wanted * wanted;
      }
    }
    EXPECT_TRUE(std::sqrt(error / square) < kernels::kProductTolerance<C>)
        << std::sqrt(error / square) << " of " << p.shape.m << " x " << p.shape.n << " x "
        << p.shape.k << ", forms " << static_cast<int>(p.a_form) << " and "
        << static_cast<int>(p.b_form) << ", slack " << p.slack << ", beta "
        << static_cast<int>(beta) << (apart ? ", apart" : "");
  }

  void run(const RandomProduct<T>& p, const kernels::Operand<T>& a, const kernels::Operand<T>& b,
           const kernels::Target<C>& c) {
    const core::Work work{};
    const kernels::DeviceProductTable& products = table().products;
    if constexpr (std::is_same_v<T, float>) {
      products.fp32.gemm(work, p.shape, a, b, c);
    } else {
      const auto& narrow = [&]() -> const kernels::DeviceProducts<T>& {
        if constexpr (std::is_same_v<T, Bf16>) return products.bf16;
        if constexpr (std::is_same_v<T, F16>) return products.fp16;
      }();
      if constexpr (std::is_same_v<C, float>) {
        narrow.gemm(work, p.shape, a, b, c);
      } else {
        narrow.narrow_gemm(work, p.shape, a, b, c);
      }
    }
  }
};
TYPED_TEST_SUITE(ProductsOnCard, kernels::AllProductTypes);

TYPED_TEST(ProductsOnCard, EqualThreeLoopsInAllFormsWithStridesAndBetas) {
  for (const GemmShape shape : {GemmShape{1, 1, 1}, GemmShape{7, 5, 3}, GemmShape{16, 33, 31},
                                GemmShape{1, 129, 64}, GemmShape{130, 1, 65}, GemmShape{33, 17, 1},
                                GemmShape{96, 80, 48}, GemmShape{256, 128, 512}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        for (const std::int64_t slack : {0, 3, 8}) {
          this->expect({shape, a, b, slack}, Beta::kZero, false);
          this->expect({shape, a, b, slack}, Beta::kOne, false);
          this->expect({shape, a, b, slack}, Beta::kOne, true);
        }
      }
    }
  }
}

// The products of a block and of a head, by a sample of their elements.
TYPED_TEST(ProductsOnCard, OfAModelsSizes) {
  for (const GemmShape shape : {GemmShape{4096, 3072, 2048}, GemmShape{128, 50'257, 768}}) {
    const std::int64_t every = 257;
    this->expect({shape, Form::kAsIs, Form::kTransposed}, Beta::kZero, false, every);
    this->expect({shape, Form::kAsIs, Form::kAsIs}, Beta::kOne, true, every);
    this->expect({shape, Form::kTransposed, Form::kAsIs}, Beta::kOne, false, every);
  }
}

}  // namespace
}  // namespace fm::emulated

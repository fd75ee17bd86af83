// Products of packed panels against the definition of their bits (kernels/gemm/libraries.h),
// in every instruction set that runs here.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>

#include "core/check.h"
#include "kernels/variants/variant.h"
#include "tests/kernels/gemm_product.h"

namespace fm::kernels {
namespace {

template <class T>
float term(const Operand<T>& x, std::int64_t row, std::int64_t column) {
  return static_cast<float>(element(x, row, column));
}

struct Spot {
  std::int64_t row;
  std::int64_t column;
};

// An element of C by the definition.
template <class T>
float defined(const Operand<T>& a, const Operand<T>& b, Spot at, std::int64_t depth, float c) {
  for (std::int64_t begin = 0; begin < depth; begin += 512) {
    float chain = 0.0F;
    for (std::int64_t i = begin; i < std::min(begin + 512, depth); ++i)
      chain = std::fma(term(a, at.row, i), term(b, i, at.column), chain);
    c += chain;
  }
  return c;
}

template <class T>
const ElementParts<T>& kernels_of(const Variant& variant) {
  if constexpr (std::is_same_v<T, float>) {
    return variant.parts.fp32;
  } else {
    return variant.parts.bf16;
  }
}

template <class T>
void expect_definition(const RandomProduct<T>& p, const Variant& variant) {
  const auto [m, n, k] = p.shape;
  const std::vector<T> a = p.random_a();
  const std::vector<T> b = p.random_b();
  const auto product = kernels_of<T>(variant).packed_product;
  Floats once(static_cast<std::size_t>(p.c_width() * m), NAN);  // beta 0 must not read it
  product(p.shape, p.left(a), p.right(b), {once.data(), p.c_width(), Beta::kZero});
  Floats twice = once;
  product(p.shape, p.left(a), p.right(b), {twice.data(), p.c_width(), Beta::kOne});
  const std::int64_t every = m * n > 20'000 ? 7 : 1;  // the definition is slow
  for (std::int64_t row = 0; row < m; row += every) {
    for (std::int64_t column = 0; column < n; column += every) {
      const auto at = static_cast<std::size_t>(row * p.c_width() + column);
      const float first = defined(p.left(a), p.right(b), {row, column}, k, 0.0F);
      ASSERT_EQ(once[at], first) << variant.name << ' ' << m << " x " << n << " x " << k << " at "
                                 << row << ", " << column;
      ASSERT_EQ(twice[at], defined(p.left(a), p.right(b), {row, column}, k, first));
    }
    for (std::int64_t column = n; column < p.c_width(); ++column) {
      const auto at = static_cast<std::size_t>(row * p.c_width() + column);
      ASSERT_TRUE(std::isnan(twice[at])) << "written beyond the row";
    }
  }
}

template <class T>
void expect_definition_in_all_forms(const GemmShape& shape) {
  for (const VariantCandidate& candidate : candidates()) {
    if (!candidate.runs_here()) continue;
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        for (const std::int64_t slack : {0, 3})
          expect_definition<T>({shape, a, b, slack}, *candidate.variant);
      }
    }
  }
}

constexpr GemmShape kShapes[] = {
    {1, 1, 1},    {7, 5, 3},   {6, 16, 8},    {12, 32, 9},    {16, 33, 31},   {100, 35, 70},
    {13, 530, 5}, {98, 65, 1}, {20, 40, 515}, {97, 513, 18},  {8, 9, 1030},   {24, 96, 40},
    {9, 64, 33},  {8, 32, 50}, {17, 16, 65},  {200, 20, 520}, {200, 500, 520}};

TEST(PackedGemm, EveryElementIsTheDefinedChain) {
  for (const GemmShape& shape : kShapes) expect_definition_in_all_forms<float>(shape);
}

TEST(PackedGemm, OfBf16IsTheChainOfItsFp32) {
  for (const GemmShape& shape : kShapes) expect_definition_in_all_forms<core::Bf16>(shape);
}

// Numbers whose last one ends a page; the page behind it must not be read.
template <class T>
class Guarded {
 public:
  explicit Guarded(const std::vector<T>& values) : bytes_(values.size() * sizeof(T)) {
    void* const pages =
        mmap(nullptr, kRoom + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FM_CHECK(pages != MAP_FAILED && bytes_ <= kRoom, "no room for ", bytes_, " bytes");
    pages_ = static_cast<char*>(pages);
    FM_CHECK(mprotect(pages_ + kRoom, kPage, PROT_NONE) == 0, "no guard");
    std::copy(values.begin(), values.end(), data());
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(pages_, kRoom + kPage); }

  T* data() { return reinterpret_cast<T*>(pages_ + kRoom - bytes_); }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kRoom = 512 * kPage;
  std::size_t bytes_;
  char* pages_ = nullptr;
};

template <class T>
void multiply_guarded(const RandomProduct<T>& p, Form a_form, Form b_form) {
  Guarded<T> a(p.random_a());
  Guarded<T> b(p.random_b());
  Guarded<float> c(Floats(static_cast<std::size_t>(p.shape.m * p.shape.n)));
  for (const VariantCandidate& candidate : candidates()) {
    if (!candidate.runs_here()) continue;
    kernels_of<T>(*candidate.variant)
        .packed_product(p.shape, {a.data(), p.a_width(), a_form}, {b.data(), p.b_width(), b_form},
                        {c.data(), p.shape.n, Beta::kOne});  // a signal ends the test otherwise
  }
}

TEST(PackedGemm, NothingIsReadOrWrittenBeyondTheOperands) {
  for (const GemmShape& shape : kShapes) {
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        multiply_guarded(RandomProduct<float>{shape, a, b}, a, b);
        multiply_guarded(RandomProduct<core::Bf16>{shape, a, b}, a, b);
      }
    }
  }
}

}  // namespace
}  // namespace fm::kernels

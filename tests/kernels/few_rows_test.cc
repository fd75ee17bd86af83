#include "kernels/gemm/few_rows.h"

#include <gtest/gtest.h>

#include "core/buffer.h"
#include "core/check.h"
#include "kernels/variants/table.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

double at(const Floats& from, std::int64_t place) {
  return static_cast<double>(from[static_cast<std::size_t>(place)]);
}

// C + A B beside fp64.
void expect_product(const GemmShape& shape, Form form) {
  core::Work work{core::Arena(), 2};
  const std::int64_t stride = form == Form::kAsIs ? shape.n : shape.k;
  const Floats a = random_values(shape.m * shape.k, 1);
  const Floats b = random_values(shape.n * shape.k, 2);
  const Floats before = random_values(shape.m * shape.n, 3);
  Floats c = before;
  gemm_few_rows<float, float>(work, shape, {a.data(), shape.k}, {b.data(), stride, form},
                              {c.data(), shape.n, Beta::kOne});
  Floats apart(before.size(), NAN);
  gemm_few_rows<float, float>(work, shape, {a.data(), shape.k}, {b.data(), stride, form},
                              {apart.data(), shape.n, Beta::kOne, before.data()});
  EXPECT_EQ(apart, c);
  for (std::int64_t i = 0; i < shape.m * shape.n; ++i) {
    const std::int64_t row = i / shape.n;
    const std::int64_t column = i % shape.n;
    double expected = at(before, i);
    for (std::int64_t k = 0; k < shape.k; ++k) {
      const std::int64_t place = form == Form::kAsIs ? k * stride + column : column * stride + k;
      expected += at(a, row * shape.k + k) * at(b, place);
    }
    ASSERT_NEAR(at(c, i), expected, 5e-4) << shape.m << " " << i;
  }
}

// Rows up to those that gemm() takes over; more columns than a tile has, and more terms than are
// widened at a time.
TEST(FewRows, IsTheProduct) {
  for (const std::int64_t m : {1, 3, 4, 6}) {
    for (const Form form : {Form::kAsIs, Form::kTransposed}) {
      expect_product({m, 1043, 70}, form);
      expect_product({m, 37, 2100}, form);
    }
  }
}

// A device that has no kernel yet.
class EmptyQueue : public core::Queue {
 public:
  const core::QueueKernels& kernels() const override { return kernels_; }
  core::MemorySource& memory() override { return core::heap(); }
  void copy_in(const void*, void*, core::Bytes) override {}
  void copy_out(const void*, void*, core::Bytes) override {}
  void forget(void*, core::Bytes) override {}
  void tell_time(std::int64_t*) override {}
  core::EventPtr record() override { return nullptr; }
  void wait(core::EventPtr) override {}

 private:
  DeviceKernels kernels_;
};

TEST(FewRows, OnAQueueTheDeviceMultiplies) {
  EmptyQueue queue;
  const core::Work work{.arena = {}, .queue = &queue};
  const float a = 2.0F;
  float c = 1.0F;
  EXPECT_THROW((gemm_few_rows<float, float>(work, {1, 1, 1}, {&a, 1}, {&a, 1}, {&c, 1})),
               core::BugError);
  EXPECT_EQ(c, 1.0F) << "this CPU has not multiplied";
}

}  // namespace
}  // namespace fm::kernels

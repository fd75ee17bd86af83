// A device of somebody else's: a queue with a table of its own, and no file of the product changed.
#include "core/queue.h"

#include <gtest/gtest.h>

#include "core/buffer.h"
#include "core/check.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"
#include "kernels/variants/table.h"
#include "tests/kernels/random_values.h"

namespace fm::kernels {
namespace {

class CountingQueue : public core::Queue {
 public:
  CountingQueue() {
    kernels_.add = [](const core::Work& work, std::int64_t, const float*, float*) {
      ++static_cast<CountingQueue&>(*work.queue).adds;
    };
    kernels_.bf16.scale = [](const core::Work& work, std::int64_t, float, core::Bf16*) {
      ++static_cast<CountingQueue&>(*work.queue).scales;
    };
  }
  const core::QueueKernels& kernels() const override { return kernels_; }
  core::MemorySource& memory() override { return core::heap(); }
  void copy_in(const void*, void*, core::Bytes) override {}
  void copy_out(const void*, void*, core::Bytes) override {}
  void forget(void*, core::Bytes) override {}
  void tell_time(std::int64_t*) override {}
  core::EventPtr record() override { return nullptr; }
  void wait(core::EventPtr) override {}

  int adds = 0;
  int scales = 0;

 private:
  DeviceKernels kernels_;
};

TEST(Queue, RunsTheKernelsOfItsDevice) {
  CountingQueue queue;
  const core::Work work{.arena = {}, .queue = &queue};
  float number = 1.0F;
  core::Bf16 narrow{};
  add(work, 1, &number, &number);
  scale(work, 1, 2.0F, &narrow);
  add(work, 1, &number, &number);
  EXPECT_EQ(number, 1.0F) << "this CPU has not added";
  EXPECT_EQ(queue.adds, 2);
  EXPECT_EQ(queue.scales, 1);
  add({}, 1, &number, &number);
  EXPECT_EQ(number, 2.0F) << "without a queue it does";
}

TEST(Queue, AKernelThatADeviceLacksIsNamedADefect) {
  CountingQueue queue;
  const core::Work work{.arena = {}, .queue = &queue};
  float number = 1.0F;
  EXPECT_THROW(scale(work, 1, 2.0F, &number), core::BugError);
  EXPECT_THROW(clear(work, 1, &number), core::BugError);
  EXPECT_THROW(copy(work, 1, &number, &number), core::BugError);
  EXPECT_EQ(number, 1.0F);
}

}  // namespace
}  // namespace fm::kernels

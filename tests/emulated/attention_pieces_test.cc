// Attention of CUDA devices on a queue with little work space.
#include <gtest/gtest.h>

#include "core/buffer.h"
#include "core/check.h"
#include "tests/emulated/attention_case.h"
#include "tests/emulated/start.h"

namespace fm::emulated {
namespace {

// A queue of a fake device, whose work space is as small as wanted.
class SmallQueue : public device::FakeQueue, public kernels::cuda::Stream {
 public:
  SmallQueue(device::TwoViews& views, core::Bytes bytes)
      : FakeQueue(views, core::heap(),
                  std::make_unique<device::EarlyOrLate>(device::EarlyOrLate::When::kEarly)),
        space_{views.allocate(bytes), bytes} {}
  void* handle() const override { return nullptr; }
  kernels::cuda::Workspace workspace() const override { return space_; }
  int multiprocessors() const override { return kMultiprocessors; }
  void check_start(const char*) const override {}

 private:
  kernels::cuda::Workspace space_;
};

// Backward with a work space of so many bytes.
template <class T>
Gradients<T> backward_in(std::int64_t bytes, const Inputs<T>& in, const Forward<T>& by) {
  device::TwoViews views(core::Bytes(1 << 20));
  SmallQueue queue(views, core::Bytes(bytes));
  core::Work work{.arena = {}, .queue = &queue};
  const auto moved = [&](const auto& values) {
    using Element = std::remove_cvref_t<decltype(values[0])>;
    const std::size_t size = values.size() * sizeof(Element);
    void* const at = views.allocate(core::Bytes(static_cast<std::int64_t>(size)));
    std::memcpy(views.seen_by_kernels(at), values.data(), size);
    return static_cast<Element*>(at);
  };
  Gradients<T> to{poisoned<T>(std::ssize(in.q)), poisoned<T>(std::ssize(in.k)),
                  poisoned<T>(std::ssize(in.v))};
  const kernels::AttentionBackward<T> arrays = {moved(in.q),   moved(in.k),         moved(in.v),
                                                moved(by.out), moved(by.logsumexp), moved(in.dout),
                                                moved(to.dq),  moved(to.dk),        moved(to.dv)};
  attention<T>().attention_backward(work, in.shape, arrays);
  const auto back = [&](const T* from, Narrows<T>& into) {
    std::memcpy(into.data(), views.seen_by_kernels(from), into.size() * sizeof(T));
  };
  back(arrays.dq, to.dq);
  back(arrays.dk, to.dk);
  back(arrays.dv, to.dv);
  return to;
}

// A number per query waits in the work space of the queue, of as many groups of heads as it holds.
template <class T>
void expect_pieces() {
  const Inputs<T> in(shape_of(2, 17, 4, 2, 16));
  const Forward<T> by = forward(in);
  const auto whole = bytes_of(by, backward(in, by));
  constexpr std::int64_t kGroup = 2 * 17 * sizeof(float);
  for (const std::int64_t groups : {1, 3, 4}) {
    EXPECT_EQ(whole, bytes_of(by, backward_in(groups * kGroup + 8, in, by))) << groups;
  }
  EXPECT_THROW(backward_in(kGroup - 1, in, by), core::BugError);
}
TEST(EmulatedAttention, BackwardComesInPiecesOfTheWorkSpace) {
  expect_pieces<float>();
  expect_pieces<Bf16>();
}

}  // namespace
}  // namespace fm::emulated

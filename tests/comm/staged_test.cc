// Ranks with devices that talk by staging: the cases of every backend.
#include "comm/staged/staged.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/meet/world.h"
#include "core/check.h"
#include "device/fake/fake_device.h"
#include "tests/comm/collective_cases.h"

namespace fm::comm {
namespace {

constexpr core::Bytes kMemory(std::int64_t{256} << 20);

// Arrays of the host, behind verbs over copies of them in a device's memory.
class ThroughDevice : public Communicator {
 public:
  ThroughDevice(std::unique_ptr<Communicator> ranks, core::Device& device)
      : ranks_(std::move(ranks)), device_(device) {}

  int rank() const override { return ranks_->rank(); }
  int size() const override { return ranks_->size(); }
  std::string describe() const override { return ranks_->describe(); }
  Sums sums() const override { return ranks_->sums(); }
  Pending all_gather(ConstSpan send, Span receive) override {
    return both(send, receive, [&](auto from, auto to) { return ranks_->all_gather(from, to); });
  }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    if (visitor != nullptr) {
      EXPECT_THROW(ranks_->reduce_scatter_to(send, receive, visitor), core::BugError);
    }
    Pending sum =
        both(send, receive, [&](auto from, auto to) { return ranks_->reduce_scatter(from, to); });
    if (visitor == nullptr) return sum;
    sum.finish();
    visitor->visit(core::Elements(0), receive.elements);
    return {};
  }
  Pending all_to_all(ConstSpan send, Span receive) override {
    return both(send, receive, [&](auto from, auto to) { return ranks_->all_to_all(from, to); });
  }
  Pending all_reduce(Span values) override {
    return one(values, [&](auto there) { return ranks_->all_reduce(there); });
  }
  Pending broadcast(Span values, int root) override {
    return one(values, [&](auto there) { return ranks_->broadcast(there, root); });
  }
  Pending send(ConstSpan values, int peer) override {
    Array from(device_, values);
    return ranks_->send({from.data(), values.elements, values.dtype}, peer);
  }
  Pending receive(Span values, int peer) override {
    return one(values, [&](auto there) { return ranks_->receive(there, peer); });
  }
  Pending barrier() override { return ranks_->barrier(); }
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return std::make_unique<ThroughDevice>(ranks_->split(members), device_);
  }

 private:
  // A copy of a span in the device's memory.
  class Array {
   public:
    Array(core::Device& device, const ConstSpan& like) : device_(&device), bytes_(like.bytes()) {
      if (bytes_.count() == 0) return;
      data_ = device.memory().allocate(bytes_);
      device.compute().copy_in(like.data, data_, bytes_);
      device.compute().finish();
    }
    Array(Array&& other) noexcept
        : device_(other.device_),
          bytes_(other.bytes_),
          data_(std::exchange(other.data_, nullptr)) {}
    ~Array() {
      if (data_ != nullptr) device_->memory().release(data_, bytes_);
    }
    void* data() const { return data_; }
    // Behind what was queued on compute().
    void read(void* into) const {
      if (bytes_.count() == 0) return;
      device_->compute().copy_out(data_, into, bytes_);
      device_->compute().finish();
    }

   private:
    core::Device* device_;
    core::Bytes bytes_;
    void* data_ = nullptr;
  };
  class Copied : public Pending::Task {
   public:
    Copied(core::Device& device, Pending pending, Array array, void* into)
        : device_(device), pending_(std::move(pending)), array_(std::move(array)), into_(into) {}
    void wait() override {
      pending_.wait({.arena = {}, .queue = &device_.compute()});
      array_.read(into_);
    }

   private:
    core::Device& device_;
    Pending pending_;
    Array array_;
    void* into_;
  };
  template <class Post>
  Pending one(const Span& values, const Post& post) {
    Array there(device_, values);
    Pending pending = post(Span{there.data(), values.elements, values.dtype});
    return copied(std::move(pending), std::move(there), values.data);
  }
  template <class Post>
  Pending both(const ConstSpan& send, const Span& receive, const Post& post) {
    const Array from(device_, send);
    Array to(device_, receive);
    Pending pending = post(ConstSpan{from.data(), send.elements, send.dtype},
                           Span{to.data(), receive.elements, receive.dtype});
    return copied(std::move(pending), std::move(to), receive.data);
  }
  Pending copied(Pending pending, Array array, void* into) {
    return Pending(std::make_unique<Copied>(device_, std::move(pending), std::move(array), into));
  }

  std::unique_ptr<Communicator> ranks_;
  core::Device& device_;
};

class Staged : public testing::TestWithParam<int> {};

TEST_P(Staged, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  const auto body = [](Communicator& world) {
    device::FakeDevice device(static_cast<std::uint64_t>(world.rank()), kMemory);
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) all[rank] = static_cast<int>(rank);
    ThroughDevice ranks(staged(world.split(all), device), device);
    throw_unless_cases_hold(ranks);
  };
  EXPECT_EQ(ranks_through(body, [](const RankBody& each) { run_ranks(GetParam(), each); }),
            GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sizes, Staged, testing::Values(1, 2, 3, 4));

TEST(Staged, SharesNothing) {
  device::FakeDevice device(1, kMemory);
  const auto ranks = staged(make_solo(), device);
  EXPECT_EQ(&ranks->memory(), &device.memory());
  EXPECT_EQ(ranks->common_memory(), nullptr);
  EXPECT_FALSE(ranks->may_share(std::vector{0}));
  EXPECT_EQ(ranks->sums(), Sums::kFixedTree);
  EXPECT_EQ(ranks->describe(), "solo, 1 rank, staged for a fake device");
}

}  // namespace
}  // namespace fm::comm

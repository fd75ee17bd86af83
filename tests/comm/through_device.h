// Ranks of arrays of the host over ranks with devices, so that the cases of every backend run
// there.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "core/check.h"
#include "core/device.h"

namespace fm::comm {

// Arrays of the host, behind verbs over copies of them in a device's memory, which belong to the
// verb until it was waited for. By turns the host waits, and the queue that computes.
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
    Pending pending = ranks_->send({from.data(), values.elements, values.dtype}, peer);
    return copied(std::move(pending), std::move(from), Array(device_, {}), nullptr);
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
      if (bytes_.count() == 0 || into == nullptr) return;
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
    Copied(core::Device& device, Pending pending, Array sent, Array array, void* into, bool on_host)
        : device_(device),
          pending_(std::move(pending)),
          sent_(std::move(sent)),
          array_(std::move(array)),
          into_(into),
          on_host_(on_host) {}
    void wait() override {
      if (on_host_) {
        pending_.finish();
      } else {
        pending_.wait({.arena = {}, .queue = &device_.compute()});
      }
      array_.read(into_);
      device_.compute().finish();
    }

   private:
    core::Device& device_;
    Pending pending_;
    Array sent_, array_;
    void* into_;
    bool on_host_;
  };
  template <class Post>
  Pending one(const Span& values, const Post& post) {
    Array there(device_, values);
    Pending pending = post(Span{there.data(), values.elements, values.dtype});
    return copied(std::move(pending), Array(device_, {}), std::move(there), values.data);
  }
  template <class Post>
  Pending both(const ConstSpan& send, const Span& receive, const Post& post) {
    Array from(device_, send);
    Array to(device_, receive);
    Pending pending = post(ConstSpan{from.data(), send.elements, send.dtype},
                           Span{to.data(), receive.elements, receive.dtype});
    return copied(std::move(pending), std::move(from), std::move(to), receive.data);
  }
  Pending copied(Pending pending, Array sent, Array array, void* into) {
    on_host_ = !on_host_;
    return Pending(std::make_unique<Copied>(device_, std::move(pending), std::move(sent),
                                            std::move(array), into, on_host_));
  }

  std::unique_ptr<Communicator> ranks_;
  core::Device& device_;
  bool on_host_ = false;
};

}  // namespace fm::comm

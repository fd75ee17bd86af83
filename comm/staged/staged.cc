#include "comm/staged/staged.h"

#include <deque>
#include <utility>
#include <vector>

#include "core/check.h"
#include "kernels/pointwise/moves.h"

namespace fm::comm {
namespace {

using Bytes = std::vector<std::byte>;
using SharedBytes = std::shared_ptr<Bytes>;

// Host memory that queues of the device still read or write.
class Staging {
 public:
  explicit Staging(core::Device& device) : device_(device) {}
  ~Staging() {
    for (const Held& each : held_) {
      try {
        each.event->finish();
      } catch (...) {  // who waits for what has failed is told
      }
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  core::Device& device() const { return device_; }

  static SharedBytes make(core::Bytes bytes) {
    return std::make_shared<Bytes>(static_cast<std::size_t>(bytes.count()));
  }
  // What compute() has made of it so far, when this returns.
  SharedBytes leave(const ConstSpan& from) { return leave(device_.compute().record(), from); }
  // What it is when `ready` has come.
  SharedBytes leave(core::EventPtr ready, const ConstSpan& from) {
    SharedBytes bytes = make(from.bytes());
    core::Queue& out = device_.out();
    out.wait(std::move(ready));
    out.copy_out(from.data, bytes->data(), from.bytes());
    out.finish();
    return bytes;
  }
  // `from` becomes `to` behind `earlier`, when who read `to` before is done. Returns when it has.
  core::EventPtr arrive(SharedBytes from, const Span& to, core::EventPtr earlier) {
    core::Queue& in = device_.in();
    in.wait(std::move(earlier));
    in.copy_in(from->data(), to.data, to.bytes());
    core::EventPtr event = in.record();
    while (!held_.empty() && held_.front().event->has_come()) held_.pop_front();
    held_.push_back({event, std::move(from)});
    return event;
  }

 private:
  struct Held {
    core::EventPtr event;
    SharedBytes bytes;
  };

  core::Device& device_;
  std::deque<Held> held_;  // in the order of the queue
};

// A verb of the host's that reads from staging.
class Leaving : public Pending::Task {
 public:
  Leaving(SharedBytes bytes, Pending host) : bytes_(std::move(bytes)), host_(std::move(host)) {}
  void wait() override { host_.finish(); }

 private:
  SharedBytes bytes_;
  Pending host_;
};

// One that writes there, and what that becomes in the device's memory.
class Arriving : public Pending::Task {
 public:
  struct Arrays {
    SharedBytes sent, received;
    Span to;
  };
  Arriving(Staging& staging, Arrays arrays, Pending host)
      : staging_(staging),
        arrays_(std::move(arrays)),
        host_(std::move(host)),
        posted_(staging.device().compute().record()) {}

  void wait() override {
    host_.finish();
    landed_ = staging_.arrive(std::move(arrays_.received), arrays_.to, std::move(posted_));
  }
  core::EventPtr landed() override { return landed_; }

 private:
  Staging& staging_;
  Arrays arrays_;
  Pending host_;
  core::EventPtr posted_, landed_;
};

ConstSpan read_from(const SharedBytes& bytes, const ConstSpan& like) {
  return {bytes->data(), like.elements, like.dtype};
}
Span written_to(const SharedBytes& bytes, const Span& like) {
  return {bytes->data(), like.elements, like.dtype};
}

class StagedCommunicator : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, core::Device& device)
      : host_(std::move(host)), staging_(device) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::string describe() const override {
    return core::concat(host_->describe(), ", staged for a ", staging_.device().name());
  }
  Sums sums() const override { return host_->sums(); }

  Pending all_gather(ConstSpan send, Span receive) override {
    return exchange(send, receive, [&](const ConstSpan& from, const Span& to) {
      return host_->all_gather(from, to);
    });
  }
  Pending all_gather_behind(const core::EventPtr& ready, ConstSpan send, Span receive) override {
    return through_host(
        staging_.leave(ready, send), send, receive,
        [&](const ConstSpan& from, const Span& to) { return host_->all_gather(from, to); });
  }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    FM_CHECK(visitor == nullptr, "the host does not see sums in the memory of a device");
    return exchange(send, receive, [&](const ConstSpan& from, const Span& to) {
      return host_->reduce_scatter(from, to);
    });
  }
  Pending all_to_all(ConstSpan send, Span receive) override {
    return exchange(send, receive, [&](const ConstSpan& from, const Span& to) {
      return host_->all_to_all(from, to);
    });
  }
  Pending all_reduce(Span values) override {
    if (alone()) return {};
    SharedBytes bytes = staging_.leave(values);
    Pending host = host_->all_reduce(written_to(bytes, values));
    return arriving({.sent = nullptr, .received = std::move(bytes), .to = values}, std::move(host));
  }
  Pending broadcast(Span values, int root) override {
    if (root == rank())
      return leaving(values, [&](const ConstSpan& from) {
        return host_->broadcast({const_cast<void*>(from.data), from.elements, from.dtype}, root);
      });
    return received(values, [&](const Span& to) { return host_->broadcast(to, root); });
  }
  Pending send(ConstSpan values, int peer) override {
    return leaving(values, [&](const ConstSpan& from) { return host_->send(from, peer); });
  }
  Pending receive(Span values, int peer) override {
    return received(values, [&](const Span& to) { return host_->receive(to, peer); });
  }
  // What this rank has queued on compute() before is done when it is through.
  Pending barrier() override {
    staging_.device().compute().finish();
    return host_->barrier();
  }

  core::MemorySource& memory() override { return staging_.device().memory(); }

  std::unique_ptr<Communicator> split_narrow(std::span<const int> members, Travel travel) override {
    return staged(host_->split_narrow(members, travel), staging_.device());
  }
  core::Bytes sent() const override { return host_->sent(); }
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return staged(host_->split(members), staging_.device());
  }

 private:
  bool alone() const { return size() == 1; }

  // One rank sends to itself, which no host need see.
  template <class Post>
  Pending exchange(const ConstSpan& send, const Span& receive, const Post& post) {
    if (alone() && send.elements == receive.elements && send.dtype == receive.dtype) {
      if (send.data == receive.data) return {};
      const core::Work work{.arena = {}, .threads = 1, .queue = &staging_.device().compute()};
      kernels::copy_bytes(work, send.bytes().count(), send.data, receive.data);
      return {};
    }
    return through_host(staging_.leave(send), send, receive, post);
  }
  template <class Post>
  Pending through_host(SharedBytes sent, const ConstSpan& send, const Span& receive,
                       const Post& post) {
    SharedBytes received = Staging::make(receive.bytes());
    Pending host = post(read_from(sent, send), written_to(received, receive));
    return arriving({std::move(sent), std::move(received), receive}, std::move(host));
  }
  template <class Post>
  Pending leaving(const ConstSpan& values, const Post& post) {
    SharedBytes bytes = staging_.leave(values);
    Pending host = post(read_from(bytes, values));
    return Pending(std::make_unique<Leaving>(std::move(bytes), std::move(host)));
  }
  template <class Post>
  Pending received(const Span& values, const Post& post) {
    SharedBytes bytes = Staging::make(values.bytes());
    Pending host = post(written_to(bytes, values));
    return arriving({.sent = nullptr, .received = std::move(bytes), .to = values}, std::move(host));
  }
  Pending arriving(Arriving::Arrays arrays, Pending host) {
    return Pending(std::make_unique<Arriving>(staging_, std::move(arrays), std::move(host)));
  }

  std::unique_ptr<Communicator> host_;
  Staging staging_;
};

}  // namespace

std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator> host, core::Device& device) {
  return std::make_unique<StagedCommunicator>(std::move(host), device);
}

}  // namespace fm::comm

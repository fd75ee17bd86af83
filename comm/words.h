// Numbers that ranks tell each other about a run: counts, losses, norms, signals.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "comm/communicator.h"

namespace fm::comm {

// A group of ranks for such numbers alone. They lie in the host's memory, whatever device computes,
// and need no order with weights and gradients that are on their way between the same ranks:
// tensors never travel here.
//
// Invariant: as Communicator's. Spans belong to an operation until its wait() returned.
// Thread:    one thread per rank.
// Lifetime:  as a communicator from split().
class Words {
 public:
  // `ranks` serves nothing else.
  explicit Words(std::unique_ptr<Communicator> ranks) : ranks_(std::move(ranks)) {}

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }

  Pending all_reduce(std::span<double> values) { return ranks_->all_reduce(span(values)); }
  Pending all_reduce(std::span<std::int64_t> values) { return ranks_->all_reduce(span(values)); }
  // receive: size() x send, in rank order.
  Pending all_gather(std::span<const double> send, std::span<double> receive) {
    return ranks_->all_gather({send.data(), count_of(send), core::DType::kF64}, span(receive));
  }
  Pending broadcast(std::span<double> values, int root) {
    return ranks_->broadcast(span(values), root);
  }
  Pending send(std::span<const double> values, int peer) {
    return ranks_->send({values.data(), count_of(values), core::DType::kF64}, peer);
  }
  Pending receive(std::span<double> values, int peer) {
    return ranks_->receive(span(values), peer);
  }

 private:
  template <class T>
  static core::Elements count_of(std::span<T> values) {
    return core::Elements(std::ssize(values));
  }
  static Span span(std::span<double> values) {
    return {values.data(), count_of(values), core::DType::kF64};
  }
  static Span span(std::span<std::int64_t> values) {
    return {values.data(), count_of(values), core::DType::kI64};
  }

  std::unique_ptr<Communicator> ranks_;
};

}  // namespace fm::comm

// DeepSpeed-Ulysses (arXiv 2309.14509): every rank holds some tokens of all heads, and computes
// attention of all tokens of some heads. Arrays are [B, tokens, heads, d].
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "core/work.h"

namespace fm::model {

using HeadLists = std::vector<std::vector<std::int64_t>>;  // by rank

// The heads that each rank computes: adjacent query heads, as evenly as possible, the first ranks
// with one more (7 heads on 4 ranks: 2, 2, 2, 1), and their key and value heads, each of which
// serves the same number of adjacent query heads. Where a rank's query heads begin or end within
// the group of a key/value head, it has one key/value head for all of them, or one for each.
struct DealtHeads {
  HeadLists q, kv;
};
// `heads` is at least `ranks`.
DealtHeads deal_heads(std::int64_t heads, std::int64_t kv_heads, int ranks);

std::int64_t most_heads(const HeadLists& lists);

// Thread: one. Lifetime: group and work outlive it. Calls are collective over the group.
class HeadExchange {
 public:
  struct Shape {
    std::int64_t batch = 1;
    std::int64_t tokens = 1;  // tokens of a row on each rank
    std::int64_t head_dim = 1;
    std::int64_t heads = 1;  // of the model
  };
  HeadExchange(comm::Communicator& group, core::Work& work) : group_(group), work_(work) {}

  // from [B, t, heads, d] -> to [B, ranks t, this rank's heads, d]; may be the same memory.
  template <class T>  // float, core::Bf16 or core::F16
  void to_heads(const Shape& shape, const HeadLists& lists, const T* from, T* to) const;
  // The inverse; the arrays of a head that several ranks have are summed in fp32, in rank order.
  template <class T>
  void to_tokens(const Shape& shape, const HeadLists& lists, const T* from, T* to) const;

  // Work space of a call with at most `most` heads on a rank.
  template <class T>
  static core::Bytes scratch(const Shape& shape, int ranks, std::int64_t most) {
    const std::int64_t row = shape.tokens * ranks * most * shape.head_dim;
    return core::Arena::aligned<T>(shape.batch * row) + core::Arena::aligned<T>(row) +
           core::Arena::aligned<float>(shape.tokens * shape.head_dim) * 2;
  }

 private:
  template <class T>
  void exchange(std::int64_t elements, const T* send, T* receive) const;
  // How many heads this rank has.
  std::int64_t own_heads(const HeadLists& lists) const;
  template <class T>
  void unpack(const Shape& shape, const HeadLists& lists, const T* packed, T* to_tHd) const;

  comm::Communicator& group_;
  core::Work& work_;
};

}  // namespace fm::model

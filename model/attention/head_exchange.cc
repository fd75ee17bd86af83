#include "model/attention/head_exchange.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/sums.h"

namespace fm::model {
namespace {

// The key/value heads of query heads [first, end), of which `group` share one.
std::vector<std::int64_t> kv_heads_for(std::int64_t first, std::int64_t end, std::int64_t group) {
  const std::int64_t first_kv = first / group;
  const std::int64_t end_kv = core::ceil_div(end, group);
  const bool whole_groups = first % group == 0 && end % group == 0;
  std::vector<std::int64_t> heads;
  if (whole_groups || end_kv == first_kv + 1) {
    for (std::int64_t kv = first_kv; kv < end_kv; ++kv) heads.push_back(kv);
  } else {
    for (std::int64_t head = first; head < end; ++head) heads.push_back(head / group);
  }
  return heads;
}

// The strides of two arrays between which [rows, width] is copied.
struct Strides {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

template <class T>
void copy_heads(const core::Work& work, kernels::RowShape shape, const Strides& strides,
                const T* from, T* to) {
  kernels::copy_rows<T>(work, shape, {from, strides.from}, {to, strides.to});
}

// Where one of the types is fp32.
template <class From, class To>
void convert_heads(const core::Work& work, kernels::RowShape shape, const Strides& strides,
                   const From* from, To* to) {
  if constexpr (std::is_same_v<From, To>) {
    copy_heads(work, shape, strides, from, to);
  } else {
    kernels::cast_rows(work, shape, from, strides.from, to, strides.to);
  }
}

}  // namespace

DealtHeads deal_heads(std::int64_t heads, std::int64_t kv_heads, int ranks) {
  FM_CHECK(heads >= ranks && heads % kv_heads == 0, heads, " heads, ", kv_heads, " kv, ", ranks);
  DealtHeads dealt;
  std::int64_t first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t end = first + heads / ranks + (rank < heads % ranks ? 1 : 0);
    std::vector<std::int64_t>& mine = dealt.q.emplace_back();
    for (std::int64_t head = first; head < end; ++head) mine.push_back(head);
    dealt.kv.push_back(kv_heads_for(first, end, heads / kv_heads));
    first = end;
  }
  return dealt;
}

std::int64_t most_heads(const HeadLists& lists) {
  std::size_t most = 0;
  for (const auto& list : lists) most = std::max(most, list.size());
  return static_cast<std::int64_t>(most);
}

std::int64_t HeadExchange::own_heads(const HeadLists& lists) const {
  FM_CHECK(std::ssize(lists) == group_.size(), "heads are dealt to ", lists.size(),
           " ranks, not to ", group_.size());
  return std::ssize(lists[static_cast<std::size_t>(group_.rank())]);
}

template <class T>
void HeadExchange::exchange(std::int64_t elements, const T* send, T* receive) const {
  const core::DType dtype = core::kDTypeOf<T>;
  group_
      .all_to_all({send, core::Elements(elements), dtype},
                  {receive, core::Elements(elements), dtype})
      .wait(work_);
}

template <class T>
void HeadExchange::to_heads(const Shape& shape, const HeadLists& lists, const T* from,
                            T* to) const {
  const core::Arena::Scope scope(work_.arena);
  const std::int64_t d = shape.head_dim;
  const std::int64_t most = most_heads(lists);
  const std::int64_t mine = own_heads(lists);
  const std::int64_t part = shape.tokens * most * d;  // elements of one rank and one row
  const std::int64_t row = part * group_.size();
  T* const packed = work_.arena.take<T>(shape.batch * row);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const T* const tokens = from + b * shape.tokens * shape.heads * d;
    for (int rank = 0; rank < group_.size(); ++rank) {
      T* packed_head = packed + b * row + rank * part;
      for (const std::int64_t head : lists[static_cast<std::size_t>(rank)]) {
        copy_heads(work_, {shape.tokens, d}, {shape.heads * d, most * d}, tokens + head * d,
                   packed_head);
        packed_head += d;
      }
    }
  }
  T* const padded = mine < most ? work_.arena.take<T>(row) : nullptr;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    T* const heads = to + b * shape.tokens * group_.size() * mine * d;
    exchange(row, packed + b * row, padded != nullptr ? padded : heads);
    if (padded == nullptr) continue;
    copy_heads(work_, {shape.tokens * group_.size(), mine * d}, {most * d, mine * d}, padded,
               heads);
  }
}

// `packed`: by rank, [t, most, d].
template <class T>
void HeadExchange::unpack(const Shape& shape, const HeadLists& lists, const T* packed,
                          T* to_tHd) const {
  const std::int64_t d = shape.head_dim;
  const std::int64_t most = most_heads(lists);
  std::vector<std::vector<const T*>> parts(static_cast<std::size_t>(shape.heads));  // by head
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    const T* const from = packed + static_cast<std::int64_t>(rank) * shape.tokens * most * d;
    for (std::size_t i = 0; i < lists[rank].size(); ++i) {
      parts[static_cast<std::size_t>(lists[rank][i])].push_back(from +
                                                                static_cast<std::int64_t>(i) * d);
    }
  }
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    const std::vector<const T*>& from = parts[static_cast<std::size_t>(head)];
    T* const to = to_tHd + head * d;
    if (from.size() == 1) {
      copy_heads(work_, {shape.tokens, d}, {most * d, shape.heads * d}, from.front(), to);
      continue;
    }
    const core::Arena::Scope scope(work_.arena);
    float* const sum = work_.arena.take<float>(shape.tokens * d);
    float* const other = work_.arena.take<float>(shape.tokens * d);
    convert_heads(work_, {shape.tokens, d}, {most * d, d}, from.front(), sum);
    for (std::size_t j = 1; j < from.size(); ++j) {
      convert_heads(work_, {shape.tokens, d}, {most * d, d}, from[j], other);
      kernels::add(work_, shape.tokens * d, other, sum);
    }
    convert_heads(work_, {shape.tokens, d}, {d, shape.heads * d}, sum, to);
  }
}

template <class T>
void HeadExchange::to_tokens(const Shape& shape, const HeadLists& lists, const T* from,
                             T* to) const {
  const core::Arena::Scope scope(work_.arena);
  const std::int64_t d = shape.head_dim;
  const std::int64_t most = most_heads(lists);
  const std::int64_t mine = own_heads(lists);
  const std::int64_t row = shape.tokens * group_.size() * most * d;
  T* const received = work_.arena.take<T>(row);
  T* const padded = mine < most ? work_.arena.take<T>(row) : nullptr;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const T* heads = from + b * shape.tokens * group_.size() * mine * d;
    if (padded != nullptr) {
      copy_heads(work_, {shape.tokens * group_.size(), mine * d}, {mine * d, most * d}, heads,
                 padded);
      heads = padded;
    }
    exchange(row, heads, received);
    unpack(shape, lists, received, to + b * shape.tokens * shape.heads * d);
  }
}

template void HeadExchange::to_heads(const Shape&, const HeadLists&, const float*, float*) const;
template void HeadExchange::to_heads(const Shape&, const HeadLists&, const core::Bf16*,
                                     core::Bf16*) const;
template void HeadExchange::to_heads(const Shape&, const HeadLists&, const core::F16*,
                                     core::F16*) const;
template void HeadExchange::to_tokens(const Shape&, const HeadLists&, const float*, float*) const;
template void HeadExchange::to_tokens(const Shape&, const HeadLists&, const core::Bf16*,
                                      core::Bf16*) const;
template void HeadExchange::to_tokens(const Shape&, const HeadLists&, const core::F16*,
                                      core::F16*) const;

}  // namespace fm::model

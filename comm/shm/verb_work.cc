#include <algorithm>

#include "comm/shm/operation.h"
#include "comm/verbs/tree_rows.h"
#include "core/check.h"
#include "core/trace.h"
#include "kernels/pointwise/sums.h"

namespace fm::comm {
namespace {

// out = the sum over all rows of the values at `offset`.
void sum_at(const ShmWork& work, core::Bytes offset, Span out) {
  RowList<const void*> rows(work.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = work.rows[i] + offset.count();
  tree_sum_rows(rows, out);
}

// Elements of a sum that go to the visitor while they are in the cache; whole blocks of the norm.
constexpr std::int64_t kPart = 4096;

// Elements of a sum of two rows whose squares are computed in the same pass.
constexpr std::int64_t kSquaresPart = 16384;

// All parts of a sum are one event of the trace.
constexpr core::TraceForm kSumAndVisit = {
    "tree_add+squared_norm", core::TraceKind::kKernel, {"elements", "bytes", "rows"}};
constexpr core::TraceForm kSumAndSpread = {
    "tree_add+copy", core::TraceKind::kKernel, {"elements", "bytes", "rows"}};

core::TraceValues sum_of(const ShmWork& work, core::Elements sum, core::DType dtype) {
  const auto rows = std::ssize(work.rows);
  return {sum.count(), core::bytes_of(sum * (rows + 1), dtype).count(), rows};
}

// For a sum of two rows whose result overwrites the receiver's own row: the other row's part; else
// null.
const float* other_row(const ShmWork& work, core::Bytes begin) {
  if (work.rows.size() != 2 || work.receive.dtype != core::DType::kF32) return nullptr;
  const std::byte* const own = work.rows[static_cast<std::size_t>(work.rank)] + begin.count();
  const std::byte* const other = work.rows[static_cast<std::size_t>(1 - work.rank)] + begin.count();
  return own == work.receive.data ? reinterpret_cast<const float*>(other) : nullptr;
}

void add_and_visit(const ShmWork& work, const float* other) {
  auto* const sum = static_cast<float*>(work.receive.data);
  const std::int64_t count = work.receive.elements.count();
  for (std::int64_t at = 0; at < count; at += kSquaresPart) {
    const std::int64_t here = std::min(kSquaresPart, count - at);
    double blocks[kSquaresPart / kernels::kNormBlock];
    const auto squares =
        std::span(blocks).first(static_cast<std::size_t>(kernels::norm_blocks(here)));
    kernels::add_squares(here, other + at, sum + at, squares);
    work.visitor->visit(core::Elements(at), core::Elements(here), squares);
  }
}

void reduce_scatter(const ShmWork& work) {
  const core::Bytes begin = work.receive.bytes() * work.rank;
  if (work.visitor == nullptr) return sum_at(work, begin, work.receive);
  const core::DType dtype = work.receive.dtype;
  const core::TraceScope scope(kSumAndVisit, sum_of(work, work.receive.elements, dtype));
  if (const float* const other = other_row(work, begin)) return add_and_visit(work, other);
  const std::int64_t count = work.receive.elements.count();
  for (std::int64_t at = 0; at < count; at += kPart) {
    const core::Elements here(std::min(kPart, count - at));
    const core::Bytes offset = core::bytes_of(core::Elements(at), dtype);
    sum_at(work, begin + offset,
           {static_cast<std::byte*>(work.receive.data) + offset.count(), here, dtype});
    work.visitor->visit(core::Elements(at), here);
  }
}

}  // namespace

void shm_work(const ShmWork& work) {
  auto* const out = static_cast<std::byte*>(work.receive.data);
  const core::Bytes whole = work.receive.bytes();
  const int size = static_cast<int>(work.rows.size());
  switch (work.verb) {
    case Verb::kAllGather:
      for (int step = 1; step <= size; ++step) {  // own part last; ranks start at different peers
        const int member = (work.rank + step) % size;
        const void* const from =
            member == work.rank ? work.own.data : work.rows[static_cast<std::size_t>(member)];
        copy_bytes(from, out + (work.own.bytes() * member).count(), work.own.bytes());
      }
      return;
    case Verb::kReduceScatter: return reduce_scatter(work);
    case Verb::kAllReduce: return sum_at(work, core::Bytes(0), work.receive);
    case Verb::kAllToAll: {
      const core::Bytes part = whole / size;
      for (int step = 0; step < size; ++step) {
        const int member = (work.rank + step) % size;
        copy_bytes(work.rows[static_cast<std::size_t>(member)] + (part * work.rank).count(),
                   out + (part * member).count(), part);
      }
      return;
    }
    case Verb::kBroadcast:
      if (work.rank != work.root)
        copy_bytes(work.rows[static_cast<std::size_t>(work.root)], out, whole);
      return;
    case Verb::kBarrier: return;
    case Verb::kMessage:
    case Verb::kSplit: break;
  }
  FM_CHECK(false, name_of(work.verb), " is no collective");
}

void shm_all_reduce_in_place(const ShmWork& work) {
  const auto size = static_cast<std::int64_t>(work.rows.size());
  const core::DType dtype = work.own.dtype;
  const std::int64_t count = work.own.elements.count();
  const std::int64_t part = core::ceil_div(count, size);
  const std::int64_t first = std::min(part * work.rank, count);
  const std::int64_t last = std::min(first + part, count);
  const core::TraceScope scope(kSumAndSpread, sum_of(work, core::Elements(last - first), dtype));
  if (size == 2 && dtype == core::DType::kF32) {
    const auto row = [&](std::size_t member) {
      return reinterpret_cast<float*>(work.rows[member]) + first;
    };
    kernels::tree_add_to_both(last - first, row(0), row(1));
    return;
  }
  for (std::int64_t at = first; at < last; at += kPart) {
    const core::Elements here(std::min(kPart, last - at));
    const core::Bytes offset = core::bytes_of(core::Elements(at), dtype);
    std::byte* const sum = work.rows[static_cast<std::size_t>(work.rank)] + offset.count();
    sum_at(work, offset, {sum, here, dtype});
    for (std::byte* const row : work.rows) {
      copy_bytes(sum, row + offset.count(), core::bytes_of(here, dtype));
    }
  }
}

}  // namespace fm::comm

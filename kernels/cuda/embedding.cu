// The embedding of tokens and its backward (kernels/pointwise/elements.h), with the bits of this
// CPU's.
#include <algorithm>
#include <cstdint>

#include "core/check.h"
#include "kernels/cuda/table.h"
#include "kernels/cuda/walk_rows.h"
#include "kernels/pointwise/elements.h"

namespace fm::kernels::cuda {
namespace {

template <class T>
struct Embedding {
  const std::int32_t* tokens;
  const T* table;
  std::int64_t width;
  T* out;
  template <int kWidth>
  __device__ void run(std::int64_t token, std::int64_t column) const {
    store(out + token * width + column,
          load<kWidth>(table + std::int64_t{tokens[token]} * width + column));
  }
};

template <class T>
void embedding(const core::Work& work, std::span<const std::int32_t> tokens, const T* table,
               std::int64_t width, T* out) {
  over_rows<kWide<T>>(work, "embedding", {std::ssize(tokens), width},
                      width % kWide<T> == 0 && aligned(table, out),
                      Embedding<T>{tokens.data(), table, width, out});
}

// The row of a token in the rows of this rank; -1: it is elsewhere.
__device__ __forceinline__ std::int64_t row_of(std::int32_t token, const TableRows& rows) {
  const std::int64_t row = token - rows.first;
  return row >= 0 && row < rows.count ? row : -1;
}

template <class T>
struct EmbeddingPart {
  const std::int32_t* tokens;
  TableRows rows;
  const T* table;
  std::int64_t width;
  float* out;
  template <int kWidth>
  __device__ void run(std::int64_t token, std::int64_t column) const {
    const std::int64_t row = row_of(tokens[token], rows);
    Pack<float, kWidth> values{};
    if (row >= 0) {
      const auto in = load<kWidth>(table + row * width + column);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values.at[i] = widened(in.at[i]);
    }
    store(out + token * width + column, values);
  }
};

template <class T>
void embedding_part(const core::Work& work, std::span<const std::int32_t> tokens,
                    const TableRows& rows, const T* table, std::int64_t width, float* out) {
  over_rows<kWide<T>>(work, "embedding_part", {std::ssize(tokens), width},
                      width % kWide<T> == 0 && aligned(table, out),
                      EmbeddingPart<T>{tokens.data(), rows, table, width, out});
}

// The backward of an embedding sorts its tokens by row, in token order within a row, and adds row
// by row. A token's place in that order is the number of those before it, counted by comparing all
// with all. For 16 Ki tokens that is 2^28 comparisons of about three instructions each, tens of
// microseconds; reading their gradients takes longer.
constexpr int kSortThreads = 128;
constexpr int kSortEach = 4;                         // tokens of a thread
constexpr int kSortTile = kSortThreads * kSortEach;  // of a block
constexpr std::int64_t kSortPiece = 32 * kSortTile;  // of a sort; pieces come one after the other
constexpr std::int32_t kNoRow = 0x7FFFFFFD;          // of tokens that take no part: sorts last
constexpr std::int32_t kNoToken = 0x7FFFFFFE;        // fills the last tile
struct Sort {
  std::int64_t count;    // of tokens
  std::int64_t slots;    // whole tiles
  std::int32_t* keys;    // [slots], the row of each token
  std::int32_t* before;  // [tiles, slots], how many of a tile come before each token
  std::int32_t* order;   // [count], tokens in order
  std::int32_t* rows;    // [count], their rows
};

struct RowKeys {
  const std::int32_t* tokens;
  TableRows rows;
  Sort sort;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    std::int32_t key = kNoToken;
    if (at < sort.count) {
      const std::int32_t token = tokens[at];
      const std::int64_t row = row_of(token, rows);
      key = row < 0 || token == rows.pad ? kNoRow : static_cast<std::int32_t>(row);
    }
    sort.keys[at] = key;
  }
};

// Block (x, y): which of tile y come before each token of tile x. Equal rows are in token order.
__global__ void __launch_bounds__(kSortThreads, 8) count_before(Sort sort) {
  const int first = static_cast<int>(blockIdx.x) * kSortTile + static_cast<int>(threadIdx.x);
  const int other = static_cast<int>(blockIdx.y) * kSortTile;
  const bool same = blockIdx.x == blockIdx.y;
  std::int32_t limit[kSortEach];
  std::int32_t before[kSortEach] = {};
#pragma unroll
  for (int i = 0; i < kSortEach; ++i) {
    limit[i] = sort.keys[first + i * kSortThreads] + (blockIdx.y < blockIdx.x ? 1 : 0);
  }
  for (int j = other; j < other + kSortTile; j += 4) {
    const auto keys = load<4>(static_cast<const std::int32_t*>(sort.keys) + j);
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k) before[i] += keys.at[k] < limit[i] ? 1 : 0;
    }
    if (!same) continue;
#pragma unroll
    for (int i = 0; i < kSortEach; ++i) {
      for (int k = 0; k < 4; ++k) {
        before[i] += keys.at[k] == limit[i] && j + k < first + i * kSortThreads ? 1 : 0;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kSortEach; ++i) {
    sort.before[blockIdx.y * sort.slots + first + i * kSortThreads] = before[i];
  }
}

struct PutInOrder {
  Sort sort;
  template <int kWidth>
  __device__ void run(std::int64_t at) const {
    std::int32_t place = 0;
#pragma unroll 8
    for (std::int64_t tile = 0; tile < sort.slots / kSortTile; ++tile) {
      place += sort.before[tile * sort.slots + at];
    }
    sort.order[place] = static_cast<std::int32_t>(at);
    sort.rows[place] = sort.keys[at];
  }
};

template <class T>
struct RowSums {
  Sort sort;
  const T* dout;
  std::int64_t width;
  float* dtable;
};
constexpr int kAddThreads = 256;

// Block (x, y): the columns of x of the row of the token at place y, if that is the row's first.
template <int kWidth, class T>
__global__ void __launch_bounds__(kAddThreads, 3) add_token_rows(RowSums<T> at) {
  constexpr int kAhead = 8;  // rows that are loaded before they are added
  const std::int32_t* const rows = at.sort.rows;
  const std::int32_t* const order = at.sort.order;
  const auto count = static_cast<int>(at.sort.count);
  auto next = static_cast<int>(blockIdx.y);
  const std::int32_t row = rows[next];
  const bool begins = next == 0 || rows[next - 1] != row;
  const std::int64_t column =
      (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * std::int64_t{kWidth};
  if (row == kNoRow || !begins || column >= at.width) return;
  const T* const from = at.dout + column;
  float* const to = at.dtable + row * at.width + column;
  auto sum = load<kWidth>(static_cast<const float*>(to));
  for (; next + kAhead <= count && rows[next + kAhead - 1] == row; next += kAhead) {
    Pack<T, kWidth> values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) values[i] = load<kWidth>(from + order[next + i] * at.width);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) sum = plus(sum, values[i]);
  }
  for (; next < count && rows[next] == row; ++next) {
    sum = plus(sum, load<kWidth>(from + order[next] * at.width));
  }
  store(to, sum);
}

template <class T>
void add_token_rows_of(const core::Work& work, const RowSums<T>& sums) {
  const bool wide = sums.width % kWide<T> == 0 && aligned(sums.dout, sums.dtable);
  const std::int64_t items = wide ? sums.width / kWide<T> : sums.width;
  const Launch how = over_columns(items, sums.sort.count, kAddThreads);
  if (wide) {
    launch(work, "embedding_backward", how, add_token_rows<kWide<T>, T>, sums);
  } else {
    launch(work, "embedding_backward", how, add_token_rows<1, T>, sums);
  }
}

Sort sort_in_workspace(const core::Work& work, std::int64_t count) {
  const std::int64_t tiles = core::ceil_div(count, kSortTile);
  const std::int64_t slots = tiles * kSortTile;
  const Workspace memory = workspace(work);
  const auto needed = (tiles + 3) * slots * static_cast<std::int64_t>(sizeof(std::int32_t));
  FM_CHECK(memory.bytes.count() >= needed, "a sort of ", count, " tokens in ", memory.bytes.count(),
           " bytes");
  auto* const from = static_cast<std::int32_t*>(memory.data);
  return {count, slots, from, from + slots, from + (tiles + 1) * slots, from + (tiles + 2) * slots};
}

template <class T>
void embedding_backward(const core::Work& work, std::span<const std::int32_t> tokens,
                        const TableRows& rows, const T* dout, std::int64_t width, float* dtable) {
  constexpr const char* kName = "embedding_backward";
  if (width == 0) return;
  FM_CHECK(rows.count <= kNoRow, "a table of ", rows.count, " rows");
  for (std::int64_t first = 0; first < std::ssize(tokens); first += kSortPiece) {
    const std::int64_t count = std::min(kSortPiece, std::ssize(tokens) - first);
    const Sort sort = sort_in_workspace(work, count);
    walk<1>(work, kName, sort.slots, false, RowKeys{tokens.data() + first, rows, sort});
    const auto tiles = static_cast<unsigned>(sort.slots / kSortTile);
    launch(work, kName, {{tiles, tiles, 1}, {kSortThreads, 1, 1}}, count_before, sort);
    walk<1>(work, kName, count, false, PutInOrder{sort});
    add_token_rows_of<T>(work, {sort, dout + first * width, width, dtable});
  }
}

template <class T, class Table>
void fill(Table& table) {
  table.embedding = embedding<T>;
  table.embedding_backward = embedding_backward<T>;
  table.embedding_part = embedding_part<T>;
}

}  // namespace

void fill_embedding(DeviceKernels& table) {
  fill<float>(table.fp32);
  fill<core::Bf16>(table.bf16);
  fill<core::F16>(table.fp16);
}

}  // namespace fm::kernels::cuda

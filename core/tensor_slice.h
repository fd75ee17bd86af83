// Parts of named tensors: what checkpoints, weights folders and exports are made of.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/crossing.h"
#include "core/param_table.h"

namespace fm::core {

// Numbers that are in memory, or come there for a while.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Numbers [first, first + count) are in memory from here on until they are dropped.
  virtual float* fetch(Elements first, Elements count) = 0;
  // The same for who writes all of them: what they were need not be there.
  virtual float* place(Elements first, Elements count) { return fetch(first, count); }
  // `written`: they were changed, and are kept as they are now.
  virtual void drop(Elements first, Elements count, bool written) = 0;
  // Copies numbers [first, first + count) to `to`.
  virtual void read(Elements first, Elements count, float* to);
  // Whether threads may read several parts at once.
  virtual bool reads_by_threads() const { return false; }
  // Whether the numbers stay what they are as long as this lives, whatever steps change.
  virtual bool stands_still() const { return false; }
};

std::shared_ptr<TensorSource> in_memory(float* data);
// Numbers of a type that is narrower than a float, or not; fetched ones are copies.
std::shared_ptr<TensorSource> in_memory(void* data, DType element);
// The same in the memory of a device, behind all that its queue was given before; null: of this
// process. The crossing outlives it.
std::shared_ptr<TensorSource> in_memory_of(Crossing* crossing, void* data, DType element);

// Rows of equal length of one named tensor: row r is elements [first + r x stride, + columns) of
// its row-major flattening. A contiguous run is one row; a matrix that is split by its columns has
// as many as the tensor.
struct TensorSlice {
  std::string name;
  std::vector<std::int64_t> shape;  // global
  Elements first;
  Elements columns;
  std::int64_t rows = 1;
  Elements stride = {};
  std::shared_ptr<TensorSource> source = nullptr;
  Elements at = {};     // where the rows lie in the source
  Elements apart = {};  // there, from one row to the next; 0: one behind the other

  Elements count() const { return columns * rows; }
  Elements first_of(std::int64_t row) const { return first + stride * row; }
  Elements source_stride() const { return apart.count() > 0 ? apart : columns; }
};

// A run of a tensor whose numbers are at `data`.
TensorSlice slice_in_memory(std::string name, std::vector<std::int64_t> shape, Elements first,
                            float* data, Elements count);

// Numbers of one row of a slice, in memory as long as this lives.
class FetchedRow {
 public:
  // kFill: all of them are written, whatever they were.
  enum class Use : std::uint8_t { kRead, kWrite, kFill };

  FetchedRow(const TensorSlice& slice, std::int64_t row, Use use)
      : FetchedRow(slice, row, use, Elements(0), slice.columns) {}
  // Columns [begin, begin + count).
  FetchedRow(const TensorSlice& slice, std::int64_t row, Use use, Elements begin, Elements count);
  FetchedRow(const FetchedRow&) = delete;
  FetchedRow& operator=(const FetchedRow&) = delete;
  ~FetchedRow();

  std::span<float> floats() const { return {data_, static_cast<std::size_t>(count_.count())}; }

 private:
  TensorSource& source_;
  Elements first_, count_;
  Use use_;
  float* data_;
};

// Whether what another tensor-parallel rank is the first holder of is cut, too.
enum class Repeats : std::uint8_t { kCut, kLeaveOut };

// The named tensors inside flat elements [first, first + count) of a table, which are numbers
// [at, at + count) of the source. Gaps and padding belong to no tensor.
std::vector<TensorSlice> cut_slices(const ParamTable& table, Elements first, Elements count,
                                    const std::shared_ptr<TensorSource>& source, Elements at,
                                    Repeats repeats = Repeats::kCut);

}  // namespace fm::core

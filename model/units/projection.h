// A linear layer of a unit: the offsets of its weight and bias in the flat buffers, and its split
// over tensor-parallel ranks.
#pragma once

#include "model/families/decoder_config.h"
#include "model/units/linear.h"
#include "model/units/unit_tables.h"

namespace fm::model {

// The LoRA adapter of a projection: y += scale B A dropout(x). Parts of one stored matrix share A,
// and each has its own rows of B.
struct Adapter {
  std::int64_t rank = 0;  // 0: none
  ParamPlace a, b;
  float scale = 1.0F;
  double dropout = 0.0;
  std::uint64_t drop_place = 0;  // for dropout_of: all parts of a matrix drop the same elements
  bool later_part = false;       // an earlier part of the same matrix writes the gradient of A
  std::size_t index = 0;         // into Products::low and dlow
};

// How tensor-parallel ranks split a matrix. kInputs is row-parallel: the product is summed over the
// ranks. kOutputs is column-parallel: the caller all-reduces the input gradient.
enum class Split : std::uint8_t { kNothing, kOutputs, kInputs };

// This rank's columns [first, first + Projection::in) of `all`.
struct InputColumns {
  std::int64_t first = 0;
  std::int64_t all = 0;
};

struct Projection {
  std::int64_t in = 0;
  std::int64_t out = 0;
  ParamPlace weight;
  std::int64_t stride = 0;  // elements from one stored row to the next
  MatrixForm form = MatrixForm::kOutIn;
  ParamPlace bias;
  Adapter adapter;
  Split split = Split::kNothing;
  InputColumns inputs = {};  // for Split::kInputs
  bool counts = true;        // false: a replica, which adds nothing to the gradient of the input

  double flops(std::int64_t tokens) const { return LinearShape{tokens, in, out}.flops(); }
};

// The rows of a product: those of a micro-batch, or the new tokens of sequences, which may be few.
enum class RowSource : std::uint8_t { kBatch, kDecoded };

}  // namespace fm::model

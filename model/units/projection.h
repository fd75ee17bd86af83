// A linear layer of a unit: where its weight and bias lie in the flat buffers, and what of it other
// ranks have.
#pragma once

#include "model/families/decoder_config.h"
#include "model/units/linear.h"
#include "model/units/unit_tables.h"

namespace fm::model {

// Of a projection: y += scale B A dropout(x). Parts of one stored matrix share A, and each has its
// rows of B.
struct Adapter {
  std::int64_t rank = 0;  // 0: none
  ParamPlace a, b;
  float scale = 1.0F;
  double dropout = 0.0;
  std::uint64_t drop_place = 0;  // of dropout_of: the parts of a matrix drop alike
  bool later_part = false;       // another part of the same matrix writes the gradient of A before
  std::size_t index = 0;         // of the arrays in Products
};

// What tensor-parallel ranks cut of a matrix: a product with parts of its inputs is summed over the
// ranks, and so is, by who asks for it, the gradient of what all parts of its outputs read.
enum class Split : std::uint8_t { kNothing, kOutputs, kInputs };

// Columns [first, first + Projection::in) of `all`.
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
  InputColumns inputs = {};  // of Split::kInputs
  bool counts = true;  // of ranks that have the same outputs, one adds to their input's gradient

  double flops(std::int64_t tokens) const { return LinearShape{tokens, in, out}.flops(); }
};

// Whose rows a product has: those of a micro-batch, or the new ones of sequences, which may be few.
enum class Rows : std::uint8_t { kBatch, kDecoded };

}  // namespace fm::model

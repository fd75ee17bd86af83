// A linear layer of a unit: where its weight and bias lie in the flat buffers, its product and both
// gradients.
#pragma once

#include "kernels/gemm/few_rows.h"
#include "kernels/pointwise/biases.h"
#include "model/decoder_config.h"
#include "model/linear.h"
#include "model/unit_tables.h"

namespace fm::model {

struct Projection {
  std::int64_t in = 0;
  std::int64_t out = 0;
  ParamPlace weight;
  std::int64_t stride = 0;  // elements from one stored row to the next
  MatrixForm form = MatrixForm::kOutIn;
  ParamPlace bias;

  double flops(std::int64_t tokens) const { return LinearShape{tokens, in, out}.flops(); }
};

// Whose rows a product has: those of a micro-batch, or the new ones of sequences, which may be few.
enum class Rows : std::uint8_t { kBatch, kDecoded };

// Products with the projections of one unit.
template <class T>
struct Products {
  core::Work& work;
  std::int64_t tokens = 0;
  UnitWeights<T> weights;      // unless only gradients are written
  float* gradients = nullptr;  // of the unit
  Write write = Write::kAssign;
  Rows rows = Rows::kBatch;

  // y [tokens, out] = x [tokens, in] W^T (+ y) + bias
  void forward(const Projection& p, const T* x, T* y, Beta beta = Beta::kZero) const {
    const kernels::GemmShape shape{tokens, p.out, p.in};
    const kernels::Operand<T> matrix{
        weights.at(p.weight), p.stride,
        p.form == MatrixForm::kOutIn ? Form::kTransposed : Form::kAsIs};
    if (rows == Rows::kDecoded) {
      kernels::gemm_few_rows<T, T>(work, shape, {x, p.in}, matrix, {y, p.out, beta});
    } else {
      kernels::gemm(work, shape, {x, p.in}, matrix, {y, p.out, beta});
    }
    if (p.bias.there()) kernels::add_bias({tokens, p.out}, weights.at(p.bias), y);
  }

  // dx [tokens, in] = dy [tokens, out] W (+ dx)
  template <class X>
  void input(const Projection& p, const T* dy, X* dx, Beta beta = Beta::kZero) const {
    const bool usual = p.form == MatrixForm::kOutIn;
    kernels::gemm(work, {tokens, p.in, p.out}, {dy, p.out},
                  {weights.at(p.weight), p.stride, usual ? Form::kAsIs : Form::kTransposed},
                  {dx, p.in, beta});
  }

  // The gradients of weight and bias, by the rule of `write`, as far as they are trained; the
  // latter takes p.out floats.
  void weight(const Projection& p, const T* dy, const T* x) const {
    if (p.weight.trained()) matrix(p, dy, x);
    if (!p.bias.trained()) return;
    const core::Arena::Scope scope(work.arena);
    float* const sums = work.arena.template take<float>(p.out);
    kernels::clear(work, p.out, sums);
    kernels::column_sums({tokens, p.out}, dy, sums);
    write_vector(work, p.out, sums, gradients + p.bias.offset, write);
  }

 private:
  using Form = kernels::Form;

  void matrix(const Projection& p, const T* dy, const T* x) const {
    float* const dweight = gradients + p.weight.offset;
    const Beta beta = beta_of(write);
    if (p.form == MatrixForm::kOutIn) {
      kernels::gemm(work, {p.out, p.in, tokens}, {dy, p.out, Form::kTransposed}, {x, p.in},
                    {dweight, p.stride, beta});
    } else {
      kernels::gemm(work, {p.in, p.out, tokens}, {x, p.in, Form::kTransposed}, {dy, p.out},
                    {dweight, p.stride, beta});
    }
  }
};

}  // namespace fm::model

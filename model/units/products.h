// Matrix products with the linear layers of a unit, and their gradients.
#pragma once

#include "kernels/gemm/few_rows.h"
#include "kernels/pointwise/biases.h"
#include "model/units/dropout.h"
#include "model/units/projection.h"
#include "model/units/tensor_parallel.h"

namespace fm::model {

// Products with the projections of one unit.
template <class T>
struct Products {
  core::Work& work;
  std::int64_t tokens = 0;
  UnitWeights<T> weights;      // null where only gradients are written
  float* gradients = nullptr;  // of the unit
  Write write = Write::kAssign;
  // By Adapter::index, [tokens, rank]: scale A dropout(x), which forward() writes, and scale B^T
  // dy, which input() writes.
  T* const* low = nullptr;
  T* const* dlow = nullptr;
  const UnitInput* batch = nullptr;  // for dropout
  RowSource rows = RowSource::kBatch;
  comm::Communicator* tensor = nullptr;  // the tensor-parallel ranks
  TokenPart own = {};                    // this rank's rows of y where the inputs are split

  // y [tokens, out] = x [tokens, in] W^T (+ residual) + bias. Where y is null, writes only `low` of
  // an adapter. Collective where the inputs are split.
  void forward(const Projection& p, const T* x, T* y, const T* residual = nullptr) const {
    if (y != nullptr) product(p, x, y, residual);
    if (p.adapter.rank > 0) adapt(p, x, y);
  }

  // dx [tokens, in] = dy [tokens, out] W (+ dx). Where the outputs are split, this is the rank's
  // part of the sum; collective, if there is an adapter, whose rows of dx have no gaps.
  template <class X>
  void input(const Projection& p, const T* dy, const kernels::Target<X>& dx) const {
    FM_CHECK(p.counts || dx.beta == Beta::kOne,
             "a rank that holds only a replica may only accumulate");
    if (p.counts) {
      const Form form = p.form == MatrixForm::kOutIn ? Form::kAsIs : Form::kTransposed;
      kernels::gemm(work, {tokens, p.in, p.out}, {dy, p.out},
                    {weights.at(p.weight), p.stride, form}, dx);
    }
    if (p.adapter.rank > 0) adapt_input(p, dy, dx.data);
  }
  template <class X>
  void input(const Projection& p, const T* dy, X* dx, Beta beta = Beta::kZero) const {
    input(p, dy, kernels::Target<X>{dx, p.in, beta});
  }

  // Writes the gradients of weight and bias where they are trained: assigns or adds, as `write`
  // says. The bias takes p.out floats of work space; an adapter's rows of x have no gaps.
  void weight(const Projection& p, const T* dy, const kernels::Operand<T>& x) const {
    if (p.weight.trained()) matrix(p, dy, x);
    if (p.adapter.rank > 0) adapter(p, dy, x.data);
    if (!p.bias.trained()) return;
    const core::Arena::Scope scope(work.arena);
    float* const sums = work.arena.template take<float>(p.out);
    kernels::clear(work, p.out, sums);
    kernels::column_sums(work, {tokens, p.out}, dy, sums);
    write_vector(work, p.out, sums, gradients + p.bias.offset, write);
  }

 private:
  using Form = kernels::Form;

  // The rows of y on this rank.
  TokenPart rows_of(const Projection& p) const {
    if (tensor != nullptr && p.split == Split::kInputs) return own;
    return {.first = 0, .count = tokens, .all = tokens};
  }
  bool drops(const Projection& p) const { return p.adapter.dropout > 0.0 && batch->dropout; }
  template <class X>
  void drop_in_place(const Projection& p, X* x) const {
    const kernels::Dropout by = dropout_of(*batch, p.adapter.dropout, p.adapter.drop_place);
    if (p.split != Split::kInputs) return drop(work, by, *batch, p.in, x);
    drop(work, by, *batch, DropPart{0, tokens, p.inputs.all, p.inputs.first, p.in}, x);
  }
  // x, or a copy of it in work space.
  const T* dropped(const Projection& p, const T* x) const {
    if (!drops(p)) return x;
    T* const copy = work.arena.template take<T>(tokens * p.in);
    kernels::copy(work, tokens * p.in, x, copy);
    drop_in_place(p, copy);
    return copy;
  }

  void adapt(const Projection& p, const T* x, T* y) const {
    const core::Arena::Scope scope(work.arena);
    const Adapter& lora = p.adapter;
    T* const low_rows = low[lora.index];
    const T* const dropped_x = dropped(p, x);
    const auto multiply = [&](auto* to) {
      kernels::gemm(work, {tokens, lora.rank, p.in}, {dropped_x, p.in},
                    {weights.at(lora.a), p.in, Form::kTransposed}, {to, lora.rank, Beta::kZero});
    };
    if (tensor != nullptr && p.split == Split::kInputs) {
      float* const part = work.arena.template take<float>(tokens * lora.rank);
      multiply(part);
      sum_over(work, tensor, tokens * lora.rank, part);
      convert(work, tokens * lora.rank, part, low_rows);
    } else {
      multiply(low_rows);
    }
    kernels::scale(work, tokens * lora.rank, lora.scale, low_rows);
    if (y == nullptr) return;
    const TokenPart of_y = rows_of(p);
    kernels::gemm(work, {of_y.count, p.out, lora.rank},
                  {low_rows + of_y.first * lora.rank, lora.rank},
                  {weights.at(lora.b), lora.rank, Form::kTransposed}, {y, p.out, Beta::kOne});
  }

  template <class X>
  void adapt_input(const Projection& p, const T* dy, X* dx) const {
    const core::Arena::Scope scope(work.arena);
    const Adapter& lora = p.adapter;
    T* const low_rows = dlow[lora.index];
    const auto multiply = [&](auto* to) {
      kernels::gemm(work, {tokens, lora.rank, p.out}, {dy, p.out}, {weights.at(lora.b), lora.rank},
                    {to, lora.rank, Beta::kZero});
    };
    float* part = nullptr;  // of the sum over the ranks that split the outputs
    if (tensor != nullptr && p.split == Split::kOutputs) {
      part = work.arena.template take<float>(tokens * lora.rank);
      p.counts ? multiply(part) : kernels::clear(work, tokens * lora.rank, part);
      convert(work, tokens * lora.rank, part, low_rows);
    } else {
      multiply(low_rows);
    }
    kernels::scale(work, tokens * lora.rank, lora.scale, low_rows);
    if (p.counts) add_through_a(p, low_rows, dx);
    if (part != nullptr) sum_dlow(p, part);
  }
  template <class X>
  void add_through_a(const Projection& p, const T* low_rows, X* dx) const {
    const Adapter& lora = p.adapter;
    const bool apart = drops(p);
    X* const to = apart ? work.arena.template take<X>(tokens * p.in) : dx;
    kernels::gemm(work, {tokens, p.in, lora.rank}, {low_rows, lora.rank},
                  {weights.at(lora.a), p.in}, {to, p.in, apart ? Beta::kZero : Beta::kOne});
    if (!apart) return;
    drop_in_place(p, to);
    kernels::add_bias(work, {1, tokens * p.in}, to, dx);
  }
  void sum_dlow(const Projection& p, float* part) const {
    const std::int64_t count = tokens * p.adapter.rank;
    sum_over(work, tensor, count, part);
    convert(work, count, part, dlow[p.adapter.index]);
    kernels::scale(work, count, p.adapter.scale, dlow[p.adapter.index]);
  }

  void adapter(const Projection& p, const T* dy, const T* x) const {
    const core::Arena::Scope scope(work.arena);
    const Adapter& lora = p.adapter;
    const Beta beta = beta_of(write);
    kernels::gemm(work, {p.out, lora.rank, tokens}, {dy, p.out, Form::kTransposed},
                  {low[lora.index], lora.rank}, {gradients + lora.b.offset, lora.rank, beta});
    kernels::gemm(work, {lora.rank, p.in, tokens}, {dlow[lora.index], lora.rank, Form::kTransposed},
                  {dropped(p, x), p.in},
                  {gradients + lora.a.offset, p.in, lora.later_part ? Beta::kOne : beta});
  }

  void product(const Projection& p, const T* x, T* y, const T* residual) const {
    const kernels::GemmShape shape{tokens, p.out, p.in};
    const kernels::Operand<T> matrix{
        weights.at(p.weight), p.stride,
        p.form == MatrixForm::kOutIn ? Form::kTransposed : Form::kAsIs};
    if (tensor != nullptr && p.split == Split::kInputs) {
      const core::Arena::Scope scope(work.arena);
      float* const sum = work.arena.template take<float>(tokens * p.out);
      kernels::gemm(work, shape, {x, p.in}, matrix, {sum, p.out, Beta::kZero});
      const float* const mine = sum_tokens(work, tensor, own, p.out, sum);
      if (residual != nullptr) {
        kernels::add_residual(work, own.count * p.out, mine, residual, y);
      } else {
        convert(work, own.count * p.out, mine, y);
      }
    } else if (rows == RowSource::kDecoded) {
      kernels::gemm_few_rows<T, T>(work, shape, {x, p.in}, matrix, onto(residual, y, p.out));
    } else {
      kernels::gemm(work, shape, {x, p.in}, matrix, onto(residual, y, p.out));
    }
    if (p.bias.there()) kernels::add_bias(work, {rows_of(p).count, p.out}, weights.at(p.bias), y);
  }

  void matrix(const Projection& p, const T* dy, const kernels::Operand<T>& x) const {
    const kernels::Target<float> to{gradients + p.weight.offset, p.stride, beta_of(write)};
    if (p.form == MatrixForm::kOutIn) {
      kernels::gemm(work, {p.out, p.in, tokens}, {dy, p.out, Form::kTransposed}, x, to);
    } else {
      kernels::gemm(work, {p.in, p.out, tokens}, {x.data, x.stride, Form::kTransposed}, {dy, p.out},
                    to);
    }
  }
};

}  // namespace fm::model

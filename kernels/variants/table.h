// The list of the kernels that every device has, as a table of functions: those of a device take
// the Work that a public kernel takes, those of this CPU's variants do without.
#pragma once

#include "core/queue.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cached.h"
#include "kernels/attention/partial_softmax.h"
#include "kernels/dropout.h"
#include "kernels/gemm/gemm.h"
#include "kernels/pointwise/activations.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/cross_entropy.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/heads.h"
#include "kernels/pointwise/layernorm.h"
#include "kernels/pointwise/moves.h"
#include "kernels/pointwise/muon.h"
#include "kernels/pointwise/optimizers.h"
#include "kernels/pointwise/rmsnorm.h"
#include "kernels/pointwise/rope.h"
#include "kernels/pointwise/split_norm.h"
#include "kernels/pointwise/sums.h"
#include "kernels/pointwise/swiglu.h"
#include "kernels/without_work.h"

namespace fm::kernels {

// The kernels over a model's elements, of type T. Form: of a public kernel's type, what the table
// holds.
template <class T, template <class> class Form>
struct ElementTable {
  Form<decltype(kernels::activate<T>)>* activate = nullptr;
  Form<decltype(kernels::activate_backward<T>)>* activate_backward = nullptr;
  Form<decltype(kernels::add_bias<T>)>* add_bias = nullptr;
  Form<decltype(kernels::add_residual<T>)>* add_residual = nullptr;
  Form<decltype(kernels::column_sums<T>)>* column_sums = nullptr;
  Form<decltype(kernels::dropout<T>)>* dropout = nullptr;
  Form<decltype(kernels::embedding<T>)>* embedding = nullptr;
  Form<decltype(kernels::embedding_backward<T>)>* embedding_backward = nullptr;
  Form<decltype(kernels::embedding_part<T>)>* embedding_part = nullptr;
  Form<decltype(kernels::glu<T>)>* glu = nullptr;
  Form<decltype(kernels::glu_backward<T>)>* glu_backward = nullptr;
  Form<decltype(kernels::layernorm_statistics<T>)>* layernorm_statistics = nullptr;
  Form<decltype(kernels::layernorm_apply<T>)>* layernorm_apply = nullptr;
  Form<decltype(kernels::layernorm_backward<T>)>* layernorm_backward = nullptr;
  Form<decltype(kernels::rmsnorm_rstd<T>)>* rmsnorm_rstd = nullptr;
  Form<decltype(kernels::rmsnorm_apply<T>)>* rmsnorm_apply = nullptr;
  Form<decltype(kernels::rmsnorm_backward<T>)>* rmsnorm_backward = nullptr;
  Form<decltype(kernels::rope<T>)>* rope = nullptr;
  Form<decltype(kernels::rope_inverse<T>)>* rope_inverse = nullptr;
  Form<decltype(kernels::scale<T>)>* scale = nullptr;
  Form<decltype(kernels::split_input<T>)>* split_input = nullptr;
  Form<decltype(kernels::split_products<T>)>* split_products = nullptr;
  Form<decltype(kernels::swiglu<T>)>* swiglu = nullptr;
  Form<decltype(kernels::swiglu_backward<T>)>* swiglu_backward = nullptr;
  Form<decltype(kernels::cast_rows<T, float>)>* widen = nullptr;
  Form<decltype(kernels::cast_rows<float, T>)>* narrow = nullptr;
};

// The kernels that have one form on every device.
template <template <class> class Form>
struct KernelTable {
  ElementTable<float, Form> fp32;
  ElementTable<core::Bf16, Form> bf16;
  ElementTable<core::F16, Form> fp16;
  Form<decltype(kernels::add)>* add = nullptr;
  Form<decltype(kernels::add_squares)>* add_squares = nullptr;
  Form<decltype(kernels::adamw)>* adamw = nullptr;
  Form<decltype(kernels::cross_entropy)>* cross_entropy = nullptr;
  Form<decltype(kernels::cross_entropy_loss)>* cross_entropy_loss = nullptr;
  Form<decltype(kernels::cross_entropy_of_parts)>* cross_entropy_of_parts = nullptr;
  Form<decltype(kernels::label_logits)>* label_logits = nullptr;
  Form<decltype(kernels::tile_maxima)>* tile_maxima = nullptr;
  Form<decltype(kernels::tile_sums)>* tile_sums = nullptr;
  Form<decltype(kernels::tile_gradients)>* tile_gradients = nullptr;
  Form<decltype(kernels::tiled_losses)>* tiled_losses = nullptr;
  Form<decltype(kernels::split_squares)>* split_squares = nullptr;
  Form<decltype(kernels::split_rstd)>* split_rstd = nullptr;
  Form<decltype(kernels::muon_begin)>* muon_begin = nullptr;
  Form<decltype(kernels::muon_move)>* muon_move = nullptr;
  Form<decltype(kernels::divide_by_norm)>* divide_by_norm = nullptr;
  Form<decltype(kernels::quintic_factor)>* quintic_factor = nullptr;
  Form<decltype(kernels::exponentials)>* exponentials = nullptr;
  Form<decltype(kernels::form_logits)>* form_logits = nullptr;
  Form<decltype(kernels::rope_table)>* rope_table = nullptr;
  Form<decltype(kernels::adagrad)>* adagrad = nullptr;
  Form<decltype(kernels::lamb_direction)>* lamb_direction = nullptr;
  Form<decltype(kernels::lamb_move)>* lamb_move = nullptr;
  Form<decltype(kernels::lion)>* lion = nullptr;
  Form<decltype(kernels::sgd)>* sgd = nullptr;
  Form<decltype(kernels::squared_norm)>* squared_norm = nullptr;
  Form<decltype(kernels::any_reaches)>* any_reaches = nullptr;
  Form<decltype(kernels::tree_add)>* tree_add = nullptr;
  Form<decltype(kernels::tree_add_to_both)>* tree_add_to_both = nullptr;
};

// What a device multiplies and attends with, and this CPU by libraries and paths of its own.
template <class T>
struct DeviceProducts {
  template <class C>
  using Product = void(const core::Work&, const GemmShape&, const Operand<T>&, const Operand<T>&,
                       const Target<C>&);
  Product<float>* gemm = nullptr;
  Product<T>* narrow_gemm = nullptr;  // null for fp32
  decltype(&kernels::attention_forward<T>) attention_forward = nullptr;
  decltype(&kernels::attention_backward<T>) attention_backward = nullptr;
  decltype(&kernels::attention_cached<T>) attention_cached = nullptr;
};
struct DeviceProductTable {
  DeviceProducts<float> fp32;
  DeviceProducts<core::Bf16> bf16;
  DeviceProducts<core::F16> fp16;
};

// Fused kernels: what a device does in one pass over memory, and this CPU in several; null: in
// several. All in all 5 % of a step on a GPU by arithmetic (benchmarks/gpu/RESULTS.md).
template <class T>
struct DeviceFused {
  decltype(&kernels::glu_rows<T>) glu_rows = nullptr;
  decltype(&kernels::glu_rows_backward<T>) glu_rows_backward = nullptr;
  decltype(&kernels::join_heads<T>) join_heads = nullptr;
  decltype(&kernels::layernorm<T>) layernorm = nullptr;
  decltype(&kernels::rmsnorm<T>) rmsnorm = nullptr;
  decltype(&kernels::rounded_cross_entropy<T>) rounded_cross_entropy = nullptr;  // null for fp32
  decltype(&kernels::split_heads<T>) split_heads = nullptr;
};
struct DeviceFusedTable {
  DeviceFused<float> fp32;
  DeviceFused<core::Bf16> bf16;
  DeviceFused<core::F16> fp16;
};

// All that a queue of a device runs (core/queue.h); null: the device has no such kernel.
struct DeviceKernels : core::QueueKernels, KernelTable<WithWork> {
  DeviceProductTable products;
  DeviceFusedTable fused;
  decltype(&kernels::merge_partial_softmax) merge_partial_softmax = nullptr;
  decltype(&kernels::clear) clear = nullptr;
  decltype(&kernels::copy_bytes) copy_bytes = nullptr;
  decltype(&kernels::copy_spaced_bytes) copy_spaced_bytes = nullptr;
};

}  // namespace fm::kernels

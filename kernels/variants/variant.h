// The kernels of one instruction set. Every kernel's source is compiled once per instruction set
// (FM_SIMD names the namespace), from the same basic operations in the same order and without
// contraction, so every variant gives the same bits.
#pragma once

#include <span>
#include <string_view>

#include "kernels/attention/attention.h"
#include "kernels/attention/cached.h"
#include "kernels/attention/tile_product.h"
#include "kernels/dropout.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/libraries.h"
#include "kernels/pointwise/activations.h"
#include "kernels/pointwise/biases.h"
#include "kernels/pointwise/cross_entropy.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/layernorm.h"
#include "kernels/pointwise/normals.h"
#include "kernels/pointwise/optimizers.h"
#include "kernels/pointwise/rmsnorm.h"
#include "kernels/pointwise/rope.h"
#include "kernels/pointwise/sums.h"
#include "kernels/pointwise/swiglu.h"

namespace fm::kernels {

// The kernels over a model's elements, of type T.
template <class T>
struct ElementKernels {
  decltype(&kernels::activate<T>) activate = nullptr;
  decltype(&kernels::activate_backward<T>) activate_backward = nullptr;
  decltype(&kernels::add_bias<T>) add_bias = nullptr;
  decltype(&kernels::add_residual<T>) add_residual = nullptr;
  decltype(&kernels::attend_cached<T>) attend_cached = nullptr;
  decltype(&kernels::column_sums<T>) column_sums = nullptr;
  decltype(&kernels::dropout<T>) dropout = nullptr;
  decltype(&kernels::embedding<T>) embedding = nullptr;
  decltype(&kernels::embedding_backward<T>) embedding_backward = nullptr;
  decltype(&kernels::few_rows_tile<T>) few_rows_tile = nullptr;
  decltype(&kernels::glu<T>) glu = nullptr;
  decltype(&kernels::glu_backward<T>) glu_backward = nullptr;
  decltype(&kernels::layernorm_statistics<T>) layernorm_statistics = nullptr;
  decltype(&kernels::layernorm_apply<T>) layernorm_apply = nullptr;
  decltype(&kernels::layernorm_backward<T>) layernorm_backward = nullptr;
  decltype(&kernels::packed_product<T>) packed_product = nullptr;
  decltype(&kernels::rmsnorm_rstd<T>) rmsnorm_rstd = nullptr;
  decltype(&kernels::rmsnorm_apply<T>) rmsnorm_apply = nullptr;
  decltype(&kernels::rmsnorm_backward<T>) rmsnorm_backward = nullptr;
  decltype(&kernels::rope<T>) rope = nullptr;
  decltype(&kernels::rope_inverse<T>) rope_inverse = nullptr;
  decltype(&kernels::scale<T>) scale = nullptr;
  decltype(&kernels::swiglu<T>) swiglu = nullptr;
  decltype(&kernels::swiglu_backward<T>) swiglu_backward = nullptr;
  decltype(&kernels::cast_rows<T, float>) widen = nullptr;
  decltype(&kernels::cast_rows<float, T>) narrow = nullptr;
};

struct Variant {
  std::string_view name;  // "baseline", "avx2", "avx512"
  ElementKernels<float> fp32;
  ElementKernels<core::Bf16> bf16;
  ElementKernels<core::F16> fp16;
  decltype(&kernels::add) add = nullptr;
  decltype(&kernels::add_squares) add_squares = nullptr;
  decltype(&kernels::adamw) adamw = nullptr;
  decltype(&kernels::attention_forward) attention_forward = nullptr;
  decltype(&kernels::attention_backward) attention_backward = nullptr;
  decltype(&kernels::cross_entropy) cross_entropy = nullptr;
  decltype(&kernels::cross_entropy_loss) cross_entropy_loss = nullptr;
  decltype(&kernels::exponentials) exponentials = nullptr;
  decltype(&kernels::normals) normals = nullptr;
  decltype(&kernels::rope_table) rope_table = nullptr;
  decltype(&kernels::adagrad) adagrad = nullptr;
  decltype(&kernels::lamb_direction) lamb_direction = nullptr;
  decltype(&kernels::lamb_move) lamb_move = nullptr;
  decltype(&kernels::lion) lion = nullptr;
  decltype(&kernels::sgd) sgd = nullptr;
  decltype(&kernels::squared_norm) squared_norm = nullptr;
  decltype(&kernels::tile_product) tile_product = nullptr;
  decltype(&kernels::tree_add) tree_add = nullptr;
  decltype(&kernels::tree_add_to_both) tree_add_to_both = nullptr;
};

struct VariantCandidate {
  const Variant* variant = nullptr;
  bool (*runs_here)() = nullptr;
};
// All that this build holds, the widest last.
std::span<const VariantCandidate> candidates();

// The widest that this CPU runs, or the one that the environment variable FME_SIMD names. Decided
// at the first call. UserError (10) when FME_SIMD names none that runs here.
const Variant& chosen_variant();
// The rule behind it: `wanted` is "" for the widest.
const Variant& choose_variant(std::string_view wanted);

}  // namespace fm::kernels

// The kernels of one instruction set of this CPU. Every kernel's source is compiled once per
// instruction set (FM_SIMD names the namespace), from the same basic operations in the same order
// and without contraction, so every variant gives the same bits.
#pragma once

#include <span>
#include <string_view>

#include "kernels/attention/cached.h"
#include "kernels/attention/head_group.h"
#include "kernels/attention/tile_product.h"
#include "kernels/gemm/few_rows.h"
#include "kernels/gemm/libraries.h"
#include "kernels/pointwise/normals.h"
#include "kernels/pointwise/quantize.h"
#include "kernels/variants/table.h"

namespace fm::kernels {

// What a variant alone has: parts of kernels, and what computes on the host.
template <class T>
struct ElementParts {
  decltype(&kernels::attend_cached<T>) attend_cached = nullptr;
  decltype(&kernels::few_rows_tile<T>) few_rows_tile = nullptr;
  decltype(&kernels::packed_product<T>) packed_product = nullptr;
  decltype(&kernels::quantize8<T>) quantize8 = nullptr;
  decltype(&kernels::dequantize8<T>) dequantize8 = nullptr;
};

struct PartsTable {
  ElementParts<float> fp32;
  ElementParts<core::Bf16> bf16;
  ElementParts<core::F16> fp16;
};

using CpuKernels = KernelTable<WithoutWork>;
template <class T>
using CpuElements = ElementTable<T, WithoutWork>;

struct Variant : CpuKernels {
  std::string_view name;  // "baseline", "avx2", "avx512"
  PartsTable parts;
  decltype(&kernels::group_attention_forward) group_attention_forward = nullptr;
  decltype(&kernels::group_attention_backward) group_attention_backward = nullptr;
  decltype(&kernels::normals) normals = nullptr;
  decltype(&kernels::quantize4) quantize4 = nullptr;
  decltype(&kernels::dequantize4) dequantize4 = nullptr;
  decltype(&kernels::tile_product) tile_product = nullptr;
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

// The public kernels: each runs where its work is, as an event of the trace. Attention is one event
// for all its groups (kernels/attention/attention.cc): they run on several threads.
#include "kernels/variants/dispatch.h"

#include <cstdlib>
#include <cstring>

#include "core/check.h"
#include "kernels/attention/paths.h"
#include "kernels/cast_block.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"

namespace fm::kernels {
namespace {

using core::TraceForm;
using core::TraceKind;
using core::TraceScope;
using dispatch::DeviceElements;
using dispatch::elements;
using dispatch::launch;
using dispatch::of_elements;
using dispatch::of_rows;
using dispatch::of_type;
using dispatch::rows;

constexpr TraceForm kAdd = of_elements("add");
constexpr TraceForm kAddSquares = of_elements("add_squares");
constexpr TraceForm kAdagrad = of_elements("adagrad");
constexpr TraceForm kAdamw = of_elements("adamw");
constexpr TraceForm kCast = of_rows("cast");
constexpr TraceForm kCrossEntropy = of_rows("cross_entropy");
constexpr TraceForm kCrossEntropyLoss = of_rows("cross_entropy_loss");
constexpr TraceForm kCrossEntropyOfParts = of_rows("cross_entropy_of_parts");
constexpr TraceForm kLabelLogits = of_rows("label_logits");
constexpr TraceForm kTileMaxima = of_rows("tile_maxima");
constexpr TraceForm kTileSums = of_rows("tile_sums");
constexpr TraceForm kTileGradients = of_rows("tile_gradients");
constexpr TraceForm kTiledLosses = of_rows("tiled_losses");
constexpr TraceForm kSplitSquares = of_rows("split_squares");
constexpr TraceForm kSplitRstd = of_rows("split_rstd");
constexpr TraceForm kMuonBegin = of_elements("muon_begin");
constexpr TraceForm kMuonMove = of_elements("muon_move");
constexpr TraceForm kDivideByNorm = of_elements("divide_by_norm");
constexpr TraceForm kQuinticFactor = of_elements("quintic_factor");
constexpr TraceForm kFormLogits = of_rows("form_logits");
constexpr TraceForm kExponentials = of_rows("exponentials");
constexpr TraceForm kLambDirection = of_elements("lamb_direction");
constexpr TraceForm kLambMove = of_elements("lamb_move");
constexpr TraceForm kLion = of_elements("lion");
constexpr TraceForm kNormals = of_elements("normals");
constexpr TraceForm kQuantize = of_elements("quantize");
constexpr TraceForm kDequantize = of_elements("dequantize");
constexpr TraceForm kRopeTable = of_rows("rope_table");
constexpr TraceForm kSgd = of_elements("sgd");
constexpr TraceForm kSquaredNorm = of_elements("squared_norm");
constexpr TraceForm kAnyReaches = of_elements("any_reaches");
constexpr TraceForm kTileProduct = {"tile_product", TraceKind::kKernel, {"m", "n", "k"}};
constexpr TraceForm kTreeAdd = {"tree_add", TraceKind::kKernel, {"elements", "bytes", "rows"}};

// The AMX path supports neither dropout nor soft-capping nor ring attention (keys of other tokens).
bool on_amx(const HeadGroup& group) {
  return group.dropout.dropped == 0 && group.softcap == 0.0F && group.keys == 0 && amx_chosen();
}

}  // namespace

const Variant& choose_variant(std::string_view wanted) {
  const Variant* chosen = nullptr;
  std::string known;
  for (const auto& [variant, runs_here] : candidates()) {
    if (!runs_here()) continue;
    known += core::concat(known.empty() ? "" : ", ", variant->name);
    if (wanted.empty() || wanted == variant->name) chosen = variant;
  }
  FM_USER_CHECK(chosen != nullptr,
                "FME_SIMD must name kernels that this build holds and this CPU "
                "runs; unset it, or use one of ",
                known, " (FME_SIMD=", wanted, ")");
  return *chosen;
}

const Variant& chosen_variant() {
  static const Variant& kChosen = [&]() -> const Variant& {
    const char* const wanted = std::getenv("FME_SIMD");
    return choose_variant(wanted == nullptr ? "" : wanted);
  }();
  return kChosen;
}

bool asks_ahead() { return !cpu_is_amd(); }

std::string_view variant_name() { return chosen_variant().name; }

GemmKind choose_gemm(std::string_view wanted) {
  FM_USER_CHECK(
      wanted.empty() || wanted == "amx" || wanted == "packed" || wanted == "mixed" ||
          wanted == "onednn" || wanted == "tuned",  // that is for GPUs
      "FME_GEMM must be amx, packed, mixed or onednn, or unset for the fastest (FME_GEMM=", wanted,
      ")");
  FM_USER_CHECK(wanted != "amx" || amx_runs_here(),
                "FME_GEMM=amx needs a CPU with amx_bf16, amx_tile and AVX-512, and an operating "
                "system that lets programs use them; unset FME_GEMM");
  if (wanted == "onednn") return GemmKind::kOneDnn;
  if (wanted == "packed") return GemmKind::kPacked;
  if (wanted == "mixed") return GemmKind::kMixed;
  if (amx_runs_here()) return GemmKind::kAmx;
  if (variant_name() == "avx2") return GemmKind::kPacked;
  const bool wide_amd = variant_name() == "avx512" && cpu_is_amd();
  return wide_amd ? GemmKind::kMixed : GemmKind::kOneDnn;
}

GemmKind chosen_gemm() {
  static const GemmKind kChosen = [] {
    const char* const wanted = std::getenv("FME_GEMM");
    return choose_gemm(wanted == nullptr ? "" : wanted);
  }();
  return kChosen;
}

bool amx_chosen() { return chosen_gemm() == GemmKind::kAmx; }

// libc moves memory, with the instructions that it finds.
void clear(const core::Work& work, std::int64_t count, float* out) {
  if (count == 0) return;
  if (work.queue != nullptr)
    return dispatch::need(dispatch::kernels_of(work).clear)(work, count, out);
  std::memset(out, 0, static_cast<std::size_t>(count) * sizeof(float));
}

void copy_bytes(const core::Work& work, std::int64_t bytes, const void* from, void* to) {
  if (bytes == 0) return;
  if (work.queue != nullptr)
    return dispatch::need(dispatch::kernels_of(work).copy_bytes)(work, bytes, from, to);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void copy_spaced_bytes(const core::Work& work, RowShape shape, SpacedRows<const std::byte> from,
                       SpacedRows<std::byte> to) {
  if (shape.width == 0) return;
  if (work.queue != nullptr)
    return dispatch::need(dispatch::kernels_of(work).copy_spaced_bytes)(work, shape, from, to);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    std::memcpy(to.data + row * to.stride, from.data + row * from.stride,
                static_cast<std::size_t>(shape.width));
  }
}

void add(const core::Work& work, std::int64_t count, const float* from, float* into) {
  const TraceScope scope(work.queue, kAdd, elements(count, 3));
  launch(work, &DeviceKernels::add, &CpuKernels::add, count, from, into);
}

void add_squares(const core::Work& work, std::int64_t count, const float* from, float* into,
                 std::span<double> blocks) {
  const TraceScope scope(work.queue, kAddSquares, elements(count, 3));
  launch(work, &DeviceKernels::add_squares, &CpuKernels::add_squares, count, from, into, blocks);
}

void adagrad(const core::Work& work, const AdagradStep& step, const AdagradSlice& slice) {
  const TraceScope scope(work.queue, kAdagrad, elements(slice.count, 5));
  launch(work, &DeviceKernels::adagrad, &CpuKernels::adagrad, step, slice);
}

void adamw(const core::Work& work, const AdamwStep& step, const AdamwSlice& slice) {
  const TraceScope scope(work.queue, kAdamw, elements(slice.count, 7));
  launch(work, &DeviceKernels::adamw, &CpuKernels::adamw, step, slice);
}

void group_attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch) {
  (on_amx(group) ? amx_attention_forward : chosen_variant().group_attention_forward)(group, at,
                                                                                     scratch);
}

void group_attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  (on_amx(group) ? amx_attention_backward : chosen_variant().group_attention_backward)(group, at,
                                                                                       scratch);
}

std::int64_t group_attention_forward_scratch(const HeadGroup& group) {
  return on_amx(group) ? amx_attention_forward_scratch(group) : variant_forward_scratch(group);
}

std::int64_t group_attention_backward_scratch(const HeadGroup& group) {
  return on_amx(group) ? amx_attention_backward_scratch(group) : variant_backward_scratch(group);
}

template <class From, class To>
void cast_block(RowShape shape, const From* from, std::int64_t from_stride, To* to,
                std::int64_t to_stride) {
  if constexpr (std::is_same_v<To, float>) {
    of_type<From>(chosen_variant()).widen(shape, from, from_stride, to, to_stride);
  } else {
    of_type<To>(chosen_variant()).narrow(shape, from, from_stride, to, to_stride);
  }
}
template void cast_block(RowShape, const float*, std::int64_t, core::Bf16*, std::int64_t);
template void cast_block(RowShape, const float*, std::int64_t, core::F16*, std::int64_t);
template void cast_block(RowShape, const core::Bf16*, std::int64_t, float*, std::int64_t);
template void cast_block(RowShape, const core::F16*, std::int64_t, float*, std::int64_t);

template <class From, class To>
void cast_rows(const core::Work& work, RowShape shape, const From* from, std::int64_t from_stride,
               To* to, std::int64_t to_stride) {
  const TraceScope scope(work.queue, kCast, rows(shape, sizeof(From) + sizeof(To)));
  if constexpr (std::is_same_v<To, float>) {
    launch(work, &DeviceElements<From>::widen, &CpuElements<From>::widen, shape, from, from_stride,
           to, to_stride);
  } else {
    launch(work, &DeviceElements<To>::narrow, &CpuElements<To>::narrow, shape, from, from_stride,
           to, to_stride);
  }
}
template void cast_rows(const core::Work&, RowShape, const float*, std::int64_t, core::Bf16*,
                        std::int64_t);
template void cast_rows(const core::Work&, RowShape, const float*, std::int64_t, core::F16*,
                        std::int64_t);
template void cast_rows(const core::Work&, RowShape, const core::Bf16*, std::int64_t, float*,
                        std::int64_t);
template void cast_rows(const core::Work&, RowShape, const core::F16*, std::int64_t, float*,
                        std::int64_t);

void form_logits(const core::Work& work, LogitRows shape, const LogitForm& form, float* logits) {
  const TraceScope scope(work.queue, kFormLogits, rows(shape.rows, shape.width, 2));
  launch(work, &DeviceKernels::form_logits, &CpuKernels::form_logits, shape, form, logits);
}

void cross_entropy(const core::Work& work, LogitRows shape, float* logits,
                   const std::int32_t* labels, const LogitGradient& gradient, double* sum) {
  const TraceScope scope(work.queue, kCrossEntropy, rows(shape.rows, shape.width, 2));
  launch(work, &DeviceKernels::cross_entropy, &CpuKernels::cross_entropy, shape, logits, labels,
         gradient, sum);
}

void cross_entropy_loss(const core::Work& work, LogitRows shape, const float* logits,
                        const std::int32_t* labels, double* sum) {
  const TraceScope scope(work.queue, kCrossEntropyLoss, rows(shape.rows, shape.width, 1));
  launch(work, &DeviceKernels::cross_entropy_loss, &CpuKernels::cross_entropy_loss, shape, logits,
         labels, sum);
}

void cross_entropy_of_parts(const core::Work& work, LogitRows shape, float* logits,
                            const std::int32_t* labels, const VocabParts& parts,
                            const LogitGradient& gradient, double* sum) {
  const TraceScope scope(work.queue, kCrossEntropyOfParts, rows(shape.rows, shape.width, 2));
  launch(work, &DeviceKernels::cross_entropy_of_parts, &CpuKernels::cross_entropy_of_parts, shape,
         logits, labels, parts, gradient, sum);
}

void label_logits(const core::Work& work, LogitRows shape, const float* logits,
                  const std::int32_t* labels, std::int64_t first, double* numbers) {
  const TraceScope scope(work.queue, kLabelLogits, rows(shape.rows, 1, 1));
  launch(work, &DeviceKernels::label_logits, &CpuKernels::label_logits, shape, logits, labels,
         first, numbers);
}

void tile_maxima(const core::Work& work, RowShape shape, const float* logits, bool first_tile,
                 float* max) {
  const TraceScope scope(work.queue, kTileMaxima, rows(shape.rows, shape.width, 1));
  launch(work, &DeviceKernels::tile_maxima, &CpuKernels::tile_maxima, shape, logits, first_tile,
         max);
}

void tile_sums(const core::Work& work, const TileRows& tile, const float* logits,
               const LogitSums& sums) {
  const TraceScope scope(work.queue, kTileSums, rows(tile.shape.rows, tile.shape.width, 1));
  launch(work, &DeviceKernels::tile_sums, &CpuKernels::tile_sums, tile, logits, sums);
}

void tile_gradients(const core::Work& work, const TileRows& tile, float* logits,
                    const LogitSums& sums, const LogitGradient& gradient) {
  const TraceScope scope(work.queue, kTileGradients, rows(tile.shape.rows, tile.shape.width, 2));
  launch(work, &DeviceKernels::tile_gradients, &CpuKernels::tile_gradients, tile, logits, sums,
         gradient);
}

void tiled_losses(const core::Work& work, std::int64_t count, const std::int32_t* labels,
                  const LogitSums& sums, double* sum) {
  const TraceScope scope(work.queue, kTiledLosses, rows(count, 1, 1));
  launch(work, &DeviceKernels::tiled_losses, &CpuKernels::tiled_losses, count, labels, sums, sum);
}

void split_squares(const core::Work& work, const SplitShape& shape, const float* rstd,
                   double* squares) {
  const TraceScope scope(work.queue, kSplitSquares, rows<double>(shape.rows, 1, 1));
  launch(work, &DeviceKernels::split_squares, &CpuKernels::split_squares, shape, rstd, squares);
}

void split_rstd(const core::Work& work, const SplitShape& shape, double eps, const double* squares,
                float* rstd) {
  const TraceScope scope(work.queue, kSplitRstd, rows<double>(shape.rows, 1, 1));
  launch(work, &DeviceKernels::split_rstd, &CpuKernels::split_rstd, shape, eps, squares, rstd);
}

void muon_begin(const core::Work& work, const MuonStep& step, std::int64_t count, float* grad,
                float* momentum) {
  const TraceScope scope(work.queue, kMuonBegin, elements(count, 4));
  launch(work, &DeviceKernels::muon_begin, &CpuKernels::muon_begin, step, count, grad, momentum);
}

void muon_move(const core::Work& work, float keep, float rate, std::int64_t count,
               const float* direction, float* param) {
  const TraceScope scope(work.queue, kMuonMove, elements(count, 3));
  launch(work, &DeviceKernels::muon_move, &CpuKernels::muon_move, keep, rate, count, direction,
         param);
}

void divide_by_norm(const core::Work& work, std::span<float> values, std::span<double> blocks) {
  const TraceScope scope(work.queue, kDivideByNorm, elements(std::ssize(values), 3));
  launch(work, &DeviceKernels::divide_by_norm, &CpuKernels::divide_by_norm, values, blocks);
}

void quintic_factor(const core::Work& work, const Quintic& by, std::int64_t side,
                    const float* squared, float* factor) {
  const TraceScope scope(work.queue, kQuinticFactor, elements(side * side, 3));
  launch(work, &DeviceKernels::quintic_factor, &CpuKernels::quintic_factor, by, side, squared,
         factor);
}

void exponentials(const core::Work& work, LogitRows shape, float softcap, float* logits,
                  double* max, double* sum) {
  const TraceScope scope(work.queue, kExponentials, rows(shape.rows, shape.width, 2));
  launch(work, &DeviceKernels::exponentials, &CpuKernels::exponentials, shape, softcap, logits, max,
         sum);
}

std::int64_t normals(const NormalStream& stream, std::uint64_t first_block, std::int64_t blocks,
                     float* out) {
  const TraceScope scope(kNormals, elements(kNormalsPerBlock * blocks, 1));
  return chosen_variant().normals(stream, first_block, blocks, out);
}

template <class T>
void packed_product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c) {
  of_type<T>(chosen_variant().parts).packed_product(shape, a, b, c);
}
template void packed_product(const GemmShape&, const Operand<float>&, const Operand<float>&,
                             const Target<float>&);
template void packed_product(const GemmShape&, const Operand<core::Bf16>&,
                             const Operand<core::Bf16>&, const Target<float>&);
template void packed_product(const GemmShape&, const Operand<core::F16>&, const Operand<core::F16>&,
                             const Target<float>&);

template <class T>
void quantize8(std::int64_t count, const T* x, float* scales, std::int8_t* q) {
  const TraceScope scope(kQuantize, elements<T>(count, 1));
  of_type<T>(chosen_variant().parts).quantize8(count, x, scales, q);
}
template void quantize8(std::int64_t, const float*, float*, std::int8_t*);
template void quantize8(std::int64_t, const core::Bf16*, float*, std::int8_t*);
template void quantize8(std::int64_t, const core::F16*, float*, std::int8_t*);

template <class T>
void dequantize8(std::int64_t count, const float* scales, const std::int8_t* q, T* x) {
  const TraceScope scope(kDequantize, elements<T>(count, 1));
  of_type<T>(chosen_variant().parts).dequantize8(count, scales, q, x);
}
template void dequantize8(std::int64_t, const float*, const std::int8_t*, float*);
template void dequantize8(std::int64_t, const float*, const std::int8_t*, core::Bf16*);
template void dequantize8(std::int64_t, const float*, const std::int8_t*, core::F16*);

void quantize4(std::int64_t count, const float* x, float* scales, std::uint8_t* q) {
  const TraceScope scope(kQuantize, elements(count, 1));
  chosen_variant().quantize4(count, x, scales, q);
}
void dequantize4(std::int64_t count, const float* scales, const std::uint8_t* q, float* x) {
  const TraceScope scope(kDequantize, elements(count, 1));
  chosen_variant().dequantize4(count, scales, q, x);
}

void rope_table(const core::Work& work, std::span<const float> inv_freq, std::int64_t positions,
                float* cos, float* sin) {
  const TraceScope scope(work.queue, kRopeTable, rows(positions, std::ssize(inv_freq), 2));
  launch(work, &DeviceKernels::rope_table, &CpuKernels::rope_table, inv_freq, positions, cos, sin);
}

void lamb_direction(const core::Work& work, const LambStep& step, const LambSlice& slice) {
  const TraceScope scope(work.queue, kLambDirection, elements(slice.count, 7));
  launch(work, &DeviceKernels::lamb_direction, &CpuKernels::lamb_direction, step, slice);
}

void lamb_move(const core::Work& work, float rate, std::int64_t count, const float* direction,
               float* param) {
  const TraceScope scope(work.queue, kLambMove, elements(count, 3));
  launch(work, &DeviceKernels::lamb_move, &CpuKernels::lamb_move, rate, count, direction, param);
}

void lion(const core::Work& work, const LionStep& step, const LionSlice& slice) {
  const TraceScope scope(work.queue, kLion, elements(slice.count, 5));
  launch(work, &DeviceKernels::lion, &CpuKernels::lion, step, slice);
}

void sgd(const core::Work& work, const SgdStep& step, const SgdSlice& slice) {
  const TraceScope scope(work.queue, kSgd,
                         elements(slice.count, slice.momentum == nullptr ? 3 : 5));
  launch(work, &DeviceKernels::sgd, &CpuKernels::sgd, step, slice);
}

void squared_norm(const core::Work& work, std::span<const float> values, std::span<double> blocks) {
  const TraceScope scope(work.queue, kSquaredNorm, elements(std::ssize(values), 1));
  launch(work, &DeviceKernels::squared_norm, &CpuKernels::squared_norm, values, blocks);
}

void any_reaches(const core::Work& work, std::span<const float> values, float limit,
                 std::int32_t* found) {
  const TraceScope scope(work.queue, kAnyReaches, elements(std::ssize(values), 1));
  launch(work, &DeviceKernels::any_reaches, &CpuKernels::any_reaches, values, limit, found);
}

void tile_product(const GemmShape& shape, const Strided& a, const Strided& b,
                  const Target<float>& c, const Band& band) {
  const TraceScope scope(kTileProduct, {shape.m, shape.n, shape.k});
  chosen_variant().tile_product(shape, a, b, c, band);
}

void tree_add(const core::Work& work, std::span<const float* const> rows, std::int64_t count,
              float* out) {
  const TraceScope scope(work.queue, kTreeAdd,
                         {count, 4 * count * (std::ssize(rows) + 1), std::ssize(rows)});
  FM_CHECK(!rows.empty(), "a sum needs at least one row");
  launch(work, &DeviceKernels::tree_add, &CpuKernels::tree_add, rows, count, out);
}
void tree_add_to_both(const core::Work& work, std::int64_t count, float* a, float* b) {
  const TraceScope scope(work.queue, kTreeAdd, {count, 4 * count * 4, 2});
  launch(work, &DeviceKernels::tree_add_to_both, &CpuKernels::tree_add_to_both, count, a, b);
}

}  // namespace fm::kernels

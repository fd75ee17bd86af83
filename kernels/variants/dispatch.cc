// The public kernels: each calls the variant that was chosen for this CPU, as an event of the
// trace. Attention is one event for all its groups (model/attention/attention.cc): they run on
// several threads.
#include "kernels/variants/dispatch.h"

#include <cstdlib>

#include "core/check.h"
#include "kernels/attention/paths.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"

namespace fm::kernels {
namespace {

using core::TraceForm;
using core::TraceKind;
using core::TraceScope;
using dispatch::chosen_kernels;
using dispatch::elements;
using dispatch::of_elements;
using dispatch::of_rows;
using dispatch::rows;

constexpr TraceForm kAdd = of_elements("add");
constexpr TraceForm kAddSquares = of_elements("add_squares");
constexpr TraceForm kAdagrad = of_elements("adagrad");
constexpr TraceForm kAdamw = of_elements("adamw");
constexpr TraceForm kCast = of_rows("cast");
constexpr TraceForm kCrossEntropy = of_rows("cross_entropy");
constexpr TraceForm kCrossEntropyLoss = of_rows("cross_entropy_loss");
constexpr TraceForm kExponentials = of_rows("exponentials");
constexpr TraceForm kLambDirection = of_elements("lamb_direction");
constexpr TraceForm kLambMove = of_elements("lamb_move");
constexpr TraceForm kLion = of_elements("lion");
constexpr TraceForm kNormals = of_elements("normals");
constexpr TraceForm kRopeTable = of_rows("rope_table");
constexpr TraceForm kSgd = of_elements("sgd");
constexpr TraceForm kSquaredNorm = of_elements("squared_norm");
constexpr TraceForm kTileProduct = {"tile_product", TraceKind::kKernel, {"m", "n", "k"}};
constexpr TraceForm kTreeAdd = {"tree_add", TraceKind::kKernel, {"elements", "bytes", "rows"}};

// The AMX path supports neither dropout nor ring attention (keys of other tokens).
bool on_amx(const HeadGroup& group) {
  return group.dropout.dropped == 0 && group.keys == 0 && amx_chosen();
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
          wanted == "onednn",
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

void add(std::int64_t count, const float* from, float* into) {
  const TraceScope scope(kAdd, elements(count, 3));
  chosen_variant().add(count, from, into);
}

void add_squares(std::int64_t count, const float* from, float* into, std::span<double> blocks) {
  const TraceScope scope(kAddSquares, elements(count, 3));
  chosen_variant().add_squares(count, from, into, blocks);
}

void adagrad(const AdagradStep& step, const AdagradSlice& slice) {
  const TraceScope scope(kAdagrad, elements(slice.count, 5));
  chosen_variant().adagrad(step, slice);
}

void adamw(const AdamwStep& step, const AdamwSlice& slice) {
  const TraceScope scope(kAdamw, elements(slice.count, 7));
  chosen_variant().adamw(step, slice);
}

void attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch) {
  (on_amx(group) ? amx_attention_forward : chosen_variant().attention_forward)(group, at, scratch);
}

void attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  (on_amx(group) ? amx_attention_backward : chosen_variant().attention_backward)(group, at,
                                                                                 scratch);
}

std::int64_t attention_forward_scratch(const HeadGroup& group) {
  return on_amx(group) ? amx_attention_forward_scratch(group) : variant_forward_scratch(group);
}

std::int64_t attention_backward_scratch(const HeadGroup& group) {
  return on_amx(group) ? amx_attention_backward_scratch(group) : variant_backward_scratch(group);
}

template <class From, class To>
void cast_block(RowShape shape, const From* from, std::int64_t from_stride, To* to,
                std::int64_t to_stride) {
  if constexpr (std::is_same_v<To, float>) {
    chosen_kernels<From>().widen(shape, from, from_stride, to, to_stride);
  } else {
    chosen_kernels<To>().narrow(shape, from, from_stride, to, to_stride);
  }
}
template void cast_block(RowShape, const float*, std::int64_t, core::Bf16*, std::int64_t);
template void cast_block(RowShape, const float*, std::int64_t, core::F16*, std::int64_t);
template void cast_block(RowShape, const core::Bf16*, std::int64_t, float*, std::int64_t);
template void cast_block(RowShape, const core::F16*, std::int64_t, float*, std::int64_t);

template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride) {
  const TraceScope scope(kCast, rows(shape, sizeof(From) + sizeof(To)));
  cast_block(shape, from, from_stride, to, to_stride);
}
template void cast_rows(RowShape, const float*, std::int64_t, core::Bf16*, std::int64_t);
template void cast_rows(RowShape, const float*, std::int64_t, core::F16*, std::int64_t);
template void cast_rows(RowShape, const core::Bf16*, std::int64_t, float*, std::int64_t);
template void cast_rows(RowShape, const core::F16*, std::int64_t, float*, std::int64_t);

double cross_entropy(RowShape shape, float* logits, const std::int32_t* labels, double scale,
                     double sum) {
  const TraceScope scope(kCrossEntropy, rows(shape.rows, shape.width, 2));
  return chosen_variant().cross_entropy(shape, logits, labels, scale, sum);
}

double cross_entropy_loss(RowShape shape, const float* logits, const std::int32_t* labels,
                          double sum) {
  const TraceScope scope(kCrossEntropyLoss, rows(shape.rows, shape.width, 1));
  return chosen_variant().cross_entropy_loss(shape, logits, labels, sum);
}

void exponentials(RowShape shape, float* logits, double* max, double* sum) {
  const TraceScope scope(kExponentials, rows(shape.rows, shape.width, 2));
  chosen_variant().exponentials(shape, logits, max, sum);
}

std::int64_t normals(const NormalStream& stream, std::uint64_t first_block, std::int64_t blocks,
                     float* out) {
  const TraceScope scope(kNormals, elements(kNormalsPerBlock * blocks, 1));
  return chosen_variant().normals(stream, first_block, blocks, out);
}

template <class T>
void packed_product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c) {
  chosen_kernels<T>().packed_product(shape, a, b, c);
}
template void packed_product(const GemmShape&, const Operand<float>&, const Operand<float>&,
                             const Target<float>&);
template void packed_product(const GemmShape&, const Operand<core::Bf16>&,
                             const Operand<core::Bf16>&, const Target<float>&);
template void packed_product(const GemmShape&, const Operand<core::F16>&, const Operand<core::F16>&,
                             const Target<float>&);

void rope_table(std::span<const float> inv_freq, std::int64_t positions, float* cos, float* sin) {
  const TraceScope scope(kRopeTable, rows(positions, std::ssize(inv_freq), 2));
  chosen_variant().rope_table(inv_freq, positions, cos, sin);
}

void lamb_direction(const LambStep& step, const LambSlice& slice) {
  const TraceScope scope(kLambDirection, elements(slice.count, 7));
  chosen_variant().lamb_direction(step, slice);
}

void lamb_move(float rate, std::int64_t count, const float* direction, float* param) {
  const TraceScope scope(kLambMove, elements(count, 3));
  chosen_variant().lamb_move(rate, count, direction, param);
}

void lion(const LionStep& step, const LionSlice& slice) {
  const TraceScope scope(kLion, elements(slice.count, 5));
  chosen_variant().lion(step, slice);
}

void sgd(const SgdStep& step, const SgdSlice& slice) {
  const TraceScope scope(kSgd, elements(slice.count, slice.momentum == nullptr ? 3 : 5));
  chosen_variant().sgd(step, slice);
}

void squared_norm(std::span<const float> values, std::span<double> blocks) {
  const TraceScope scope(kSquaredNorm, elements(std::ssize(values), 1));
  chosen_variant().squared_norm(values, blocks);
}

void tile_product(const GemmShape& shape, const Strided& a, const Strided& b,
                  const Target<float>& c, const Band& band) {
  const TraceScope scope(kTileProduct, {shape.m, shape.n, shape.k});
  chosen_variant().tile_product(shape, a, b, c, band);
}

void tree_add(std::span<const float* const> rows, std::int64_t count, float* out) {
  const TraceScope scope(kTreeAdd, {count, 4 * count * (std::ssize(rows) + 1), std::ssize(rows)});
  FM_CHECK(!rows.empty(), "a sum needs at least one row");
  chosen_variant().tree_add(rows, count, out);
}
void tree_add_to_both(std::int64_t count, float* a, float* b) {
  const TraceScope scope(kTreeAdd, {count, 4 * count * 4, 2});
  chosen_variant().tree_add_to_both(count, a, b);
}

}  // namespace fm::kernels

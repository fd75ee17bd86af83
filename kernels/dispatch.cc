// The public kernels: each calls the variant that was chosen for this CPU, as an event of the
// trace. Attention is one event for all its groups (model/attention.cc): they run on several
// threads.
#include <cstdlib>

#include "core/check.h"
#include "core/trace_recorder.h"
#include "kernels/amx.h"
#include "kernels/attention_amx.h"
#include "kernels/attention_blocks.h"
#include "kernels/variant.h"

namespace fm::kernels {
namespace {

using core::TraceForm;
using core::TraceKind;
using core::TraceScope;

// Bytes are what must be read and written of fp32 at least, each element once.
constexpr TraceForm of_elements(const char* name) {
  return {name, TraceKind::kKernel, {"elements", "bytes"}};
}
constexpr TraceForm of_rows(const char* name) {
  return {name, TraceKind::kKernel, {"rows", "width", "bytes"}};
}
constexpr TraceForm kAdd = of_elements("add");
constexpr TraceForm kAdamw = of_elements("adamw");
constexpr TraceForm kCrossEntropy = of_rows("cross_entropy");
constexpr TraceForm kCrossEntropyLoss = of_rows("cross_entropy_loss");
constexpr TraceForm kEmbedding = of_rows("embedding");
constexpr TraceForm kEmbeddingBackward = of_rows("embedding_backward");
constexpr TraceForm kNormals = of_elements("normals");
constexpr TraceForm kRmsnormRstd = of_rows("rmsnorm_rstd");
constexpr TraceForm kRmsnormApply = of_rows("rmsnorm_apply");
constexpr TraceForm kRmsnormBackward = of_rows("rmsnorm_backward");
constexpr TraceForm kRopeTable = of_rows("rope_table");
constexpr TraceForm kRope = of_rows("rope");
constexpr TraceForm kRopeInverse = of_rows("rope_inverse");
constexpr TraceForm kSgd = of_elements("sgd");
constexpr TraceForm kSquaredNorm = of_elements("squared_norm");
constexpr TraceForm kSwiglu = of_elements("swiglu");
constexpr TraceForm kSwigluBackward = of_elements("swiglu_backward");
constexpr TraceForm kTileProduct = {"tile_product", TraceKind::kKernel, {"m", "n", "k"}};
constexpr TraceForm kTreeAdd = {"tree_add", TraceKind::kKernel, {"elements", "bytes", "rows"}};

// `passes`: how many arrays of this many elements are read or written.
core::TraceValues elements(std::int64_t count, std::int64_t passes) {
  return {count, 4 * passes * count};
}
core::TraceValues rows(std::int64_t count, std::int64_t width, std::int64_t passes) {
  return {count, width, 4 * passes * count * width};
}
core::TraceValues rows(RowShape shape, std::int64_t passes) {
  return rows(shape.rows, shape.width, passes);
}

core::TraceValues all_heads(const RopeTable& table, core::BatchShape shape, std::int64_t count) {
  return rows(shape.tokens() * count, 2 * table.half_dim, 2);
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

bool choose_amx(std::string_view wanted) {
  FM_USER_CHECK(wanted.empty() || wanted == "amx" || wanted == "onednn",
                "FME_GEMM must be amx or onednn, or unset for the fastest (FME_GEMM=", wanted, ")");
  FM_USER_CHECK(wanted != "amx" || amx_runs_here(),
                "FME_GEMM=amx needs a CPU with amx_bf16, amx_tile and AVX-512, and an operating "
                "system that lets programs use them; unset FME_GEMM");
  return wanted != "onednn" && amx_runs_here();
}

bool amx_chosen() {
  static const bool kChosen = [] {
    const char* const wanted = std::getenv("FME_GEMM");
    return choose_amx(wanted == nullptr ? "" : wanted);
  }();
  return kChosen;
}

void add(std::int64_t count, const float* from, float* into) {
  const TraceScope scope(kAdd, elements(count, 3));
  chosen_variant().add(count, from, into);
}

void adamw(const AdamwStep& step, const AdamwSlice& slice) {
  const TraceScope scope(kAdamw, elements(slice.count, 7));
  chosen_variant().adamw(step, slice);
}

void attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch) {
  (amx_chosen() ? amx_attention_forward : chosen_variant().attention_forward)(group, at, scratch);
}

void attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  (amx_chosen() ? amx_attention_backward : chosen_variant().attention_backward)(group, at, scratch);
}

std::int64_t attention_forward_scratch(const HeadGroup& group) {
  return amx_chosen() ? amx_attention_forward_scratch(group) : variant_forward_scratch(group);
}

std::int64_t attention_backward_scratch(const HeadGroup& group) {
  return amx_chosen() ? amx_attention_backward_scratch(group) : variant_backward_scratch(group);
}

double cross_entropy(RowShape shape, float* logits, const std::int32_t* labels, double scale,
                     double sum) {
  const TraceScope scope(kCrossEntropy, rows(shape, 2));
  return chosen_variant().cross_entropy(shape, logits, labels, scale, sum);
}

double cross_entropy_loss(RowShape shape, const float* logits, const std::int32_t* labels,
                          double sum) {
  const TraceScope scope(kCrossEntropyLoss, rows(shape, 1));
  return chosen_variant().cross_entropy_loss(shape, logits, labels, sum);
}

void embedding(std::span<const std::int32_t> tokens, const float* table, std::int64_t width,
               float* out) {
  const TraceScope scope(kEmbedding, rows(std::ssize(tokens), width, 2));
  chosen_variant().embedding(tokens, table, width, out);
}

void embedding_backward(std::span<const std::int32_t> tokens, const float* dout, std::int64_t width,
                        float* dtable) {
  const TraceScope scope(kEmbeddingBackward, rows(std::ssize(tokens), width, 3));
  chosen_variant().embedding_backward(tokens, dout, width, dtable);
}

std::int64_t normals(const NormalStream& stream, std::uint64_t first_block, std::int64_t blocks,
                     float* out) {
  const TraceScope scope(kNormals, elements(kNormalsPerBlock * blocks, 1));
  return chosen_variant().normals(stream, first_block, blocks, out);
}

void rmsnorm_rstd(RowShape shape, const float* x, double eps, float* rstd) {
  const TraceScope scope(kRmsnormRstd, rows(shape, 1));
  chosen_variant().rmsnorm_rstd(shape, x, eps, rstd);
}

void rmsnorm_apply(RowShape shape, const float* x, const float* weight, const float* rstd,
                   float* y) {
  const TraceScope scope(kRmsnormApply, rows(shape, 2));
  chosen_variant().rmsnorm_apply(shape, x, weight, rstd, y);
}

void rmsnorm_backward(RowShape shape, const RmsnormBackward& at) {
  const TraceScope scope(kRmsnormBackward, rows(shape, at.residual == nullptr ? 3 : 4));
  chosen_variant().rmsnorm_backward(shape, at);
}

void rope_table(std::span<const float> inv_freq, std::int64_t positions, float* cos, float* sin) {
  const TraceScope scope(kRopeTable, rows(positions, std::ssize(inv_freq), 2));
  chosen_variant().rope_table(inv_freq, positions, cos, sin);
}

void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  const TraceScope scope(kRope, all_heads(table, shape, heads));
  chosen_variant().rope(table, shape, heads, x);
}

void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  const TraceScope scope(kRopeInverse, all_heads(table, shape, heads));
  chosen_variant().rope_inverse(table, shape, heads, x);
}

void sgd(const SgdStep& step, const SgdSlice& slice) {
  const TraceScope scope(kSgd, elements(slice.count, slice.momentum == nullptr ? 3 : 5));
  chosen_variant().sgd(step, slice);
}

void squared_norm(std::span<const float> values, std::span<double> blocks) {
  const TraceScope scope(kSquaredNorm, elements(std::ssize(values), 1));
  chosen_variant().squared_norm(values, blocks);
}

void swiglu(std::int64_t count, const float* gate, const float* up, float* y) {
  const TraceScope scope(kSwiglu, elements(count, 3));
  chosen_variant().swiglu(count, gate, up, y);
}

void swiglu_backward(std::int64_t count, const SwigluBackward& at) {
  const TraceScope scope(kSwigluBackward, elements(count, 5));
  chosen_variant().swiglu_backward(count, at);
}

void tile_product(const GemmShape& shape, const Strided& a, const Strided& b, const Target& c,
                  const Band& band) {
  const TraceScope scope(kTileProduct, {shape.m, shape.n, shape.k});
  chosen_variant().tile_product(shape, a, b, c, band);
}

void tree_add(std::span<const float* const> rows, std::int64_t count, float* out) {
  const TraceScope scope(kTreeAdd, {count, 4 * count * (std::ssize(rows) + 1), std::ssize(rows)});
  FM_CHECK(!rows.empty(), "a sum needs at least one row");
  chosen_variant().tree_add(rows, count, out);
}

}  // namespace fm::kernels

// The public kernels: each calls the variant that was chosen for this CPU.
#include <cstdlib>

#include "core/check.h"
#include "kernels/variant.h"

namespace fm::kernels {

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

void add(std::int64_t count, const float* from, float* into) {
  chosen_variant().add(count, from, into);
}

void adamw(const AdamwStep& step, const AdamwSlice& slice) { chosen_variant().adamw(step, slice); }

void attention_forward(const HeadGroup& group, const GroupForward& at, float* scratch) {
  chosen_variant().attention_forward(group, at, scratch);
}

void attention_backward(const HeadGroup& group, const GroupBackward& at, float* scratch) {
  chosen_variant().attention_backward(group, at, scratch);
}

double cross_entropy(RowShape shape, float* logits, const std::int32_t* labels, double scale,
                     double sum) {
  return chosen_variant().cross_entropy(shape, logits, labels, scale, sum);
}

double cross_entropy_loss(RowShape shape, const float* logits, const std::int32_t* labels,
                          double sum) {
  return chosen_variant().cross_entropy_loss(shape, logits, labels, sum);
}

void embedding(std::span<const std::int32_t> tokens, const float* table, std::int64_t width,
               float* out) {
  chosen_variant().embedding(tokens, table, width, out);
}

void embedding_backward(std::span<const std::int32_t> tokens, const float* dout, std::int64_t width,
                        float* dtable) {
  chosen_variant().embedding_backward(tokens, dout, width, dtable);
}

void rmsnorm_rstd(RowShape shape, const float* x, double eps, float* rstd) {
  chosen_variant().rmsnorm_rstd(shape, x, eps, rstd);
}

void rmsnorm_apply(RowShape shape, const float* x, const float* weight, const float* rstd,
                   float* y) {
  chosen_variant().rmsnorm_apply(shape, x, weight, rstd, y);
}

void rmsnorm_backward(RowShape shape, const RmsnormBackward& at) {
  chosen_variant().rmsnorm_backward(shape, at);
}

void rope_table(std::span<const float> inv_freq, std::int64_t positions, float* cos, float* sin) {
  chosen_variant().rope_table(inv_freq, positions, cos, sin);
}

void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  chosen_variant().rope(table, shape, heads, x);
}

void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, float* x) {
  chosen_variant().rope_inverse(table, shape, heads, x);
}

void sgd(const SgdStep& step, const SgdSlice& slice) { chosen_variant().sgd(step, slice); }

void squared_norm(std::span<const float> values, std::span<double> blocks) {
  chosen_variant().squared_norm(values, blocks);
}

void swiglu(std::int64_t count, const float* gate, const float* up, float* y) {
  chosen_variant().swiglu(count, gate, up, y);
}

void swiglu_backward(std::int64_t count, const SwigluBackward& at) {
  chosen_variant().swiglu_backward(count, at);
}

void tile_product(const GemmShape& shape, const Strided& a, const Strided& b, const Target& c,
                  const Band& band) {
  chosen_variant().tile_product(shape, a, b, c, band);
}

void tree_add(std::span<const float* const> rows, std::int64_t count, float* out) {
  FM_CHECK(!rows.empty(), "a sum needs at least one row");
  chosen_variant().tree_add(rows, count, out);
}

}  // namespace fm::kernels

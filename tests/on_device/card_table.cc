// Every entry of the card's table, on the card's queue.
#include <memory>

#include "core/check.h"
#include "device/cuda.h"
#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

core::Device& card() {
  static const std::unique_ptr<core::Device> kCard =
      device::open_cuda(0, device::CardAttends::kByOurKernels);
  return *kCard;
}
core::Work work_of_card() { return {.arena = {}, .threads = 1, .queue = &card().compute()}; }
const kernels::DeviceKernels& real() {
  return static_cast<const kernels::DeviceKernels&>(card().compute().kernels());
}

template <class T>
const auto& elements() {
  return elements_of<T>(real());
}
template <class T>
const auto& products() {
  return elements_of<T>(real().products);
}
template <class T>
const auto& fused() {
  return elements_of<T>(real().fused);
}

// entry = what calls kPart().*kEntry.
template <auto kPart, auto kEntry, class W, class... Parameters>
void pass(void (*&entry)(W&, Parameters...)) {
  entry = [](W&, Parameters... parameters) {
    core::Work work = work_of_card();
    FM_CHECK(kPart().*kEntry != nullptr, "the card has no such kernel");
    (kPart().*kEntry)(work, parameters...);
    work.queue->finish();
  };
}

template <class T>
void fill_elements(kernels::ElementTable<T, kernels::WithWork>& to) {
  using Table = kernels::ElementTable<T, kernels::WithWork>;
  constexpr auto kPart = &elements<T>;
  pass<kPart, &Table::activate>(to.activate);
  pass<kPart, &Table::activate_backward>(to.activate_backward);
  pass<kPart, &Table::add_bias>(to.add_bias);
  pass<kPart, &Table::add_residual>(to.add_residual);
  pass<kPart, &Table::column_sums>(to.column_sums);
  pass<kPart, &Table::dropout>(to.dropout);
  pass<kPart, &Table::embedding>(to.embedding);
  pass<kPart, &Table::embedding_backward>(to.embedding_backward);
  pass<kPart, &Table::embedding_part>(to.embedding_part);
  pass<kPart, &Table::glu>(to.glu);
  pass<kPart, &Table::glu_backward>(to.glu_backward);
  pass<kPart, &Table::layernorm_statistics>(to.layernorm_statistics);
  pass<kPart, &Table::layernorm_apply>(to.layernorm_apply);
  pass<kPart, &Table::layernorm_backward>(to.layernorm_backward);
  pass<kPart, &Table::rmsnorm_rstd>(to.rmsnorm_rstd);
  pass<kPart, &Table::rmsnorm_apply>(to.rmsnorm_apply);
  pass<kPart, &Table::rmsnorm_backward>(to.rmsnorm_backward);
  pass<kPart, &Table::rope>(to.rope);
  pass<kPart, &Table::rope_inverse>(to.rope_inverse);
  pass<kPart, &Table::scale>(to.scale);
  pass<kPart, &Table::split_input>(to.split_input);
  pass<kPart, &Table::split_products>(to.split_products);
  pass<kPart, &Table::swiglu>(to.swiglu);
  pass<kPart, &Table::swiglu_backward>(to.swiglu_backward);
  pass<kPart, &Table::widen>(to.widen);
  pass<kPart, &Table::narrow>(to.narrow);
}

template <class T>
void fill_products(kernels::DeviceProducts<T>& to) {
  using Table = kernels::DeviceProducts<T>;
  constexpr auto kPart = &products<T>;
  pass<kPart, &Table::gemm>(to.gemm);
  if constexpr (!std::is_same_v<T, float>) pass<kPart, &Table::narrow_gemm>(to.narrow_gemm);
  pass<kPart, &Table::attention_forward>(to.attention_forward);
  pass<kPart, &Table::attention_backward>(to.attention_backward);
  pass<kPart, &Table::attention_cached>(to.attention_cached);
}

template <class T>
void fill_fused(kernels::DeviceFused<T>& to) {
  using Table = kernels::DeviceFused<T>;
  constexpr auto kPart = &fused<T>;
  pass<kPart, &Table::glu_rows>(to.glu_rows);
  pass<kPart, &Table::glu_rows_backward>(to.glu_rows_backward);
  pass<kPart, &Table::join_heads>(to.join_heads);
  pass<kPart, &Table::layernorm>(to.layernorm);
  pass<kPart, &Table::rmsnorm>(to.rmsnorm);
  pass<kPart, &Table::split_heads>(to.split_heads);
  if constexpr (!std::is_same_v<T, float>) {
    pass<kPart, &Table::rounded_cross_entropy>(to.rounded_cross_entropy);
  }
}

void fill_the_rest(kernels::DeviceKernels& to) {
  using Table = kernels::DeviceKernels;
  pass<&real, &Table::add>(to.add);
  pass<&real, &Table::add_squares>(to.add_squares);
  pass<&real, &Table::adamw>(to.adamw);
  pass<&real, &Table::adagrad>(to.adagrad);
  pass<&real, &Table::cross_entropy>(to.cross_entropy);
  pass<&real, &Table::cross_entropy_loss>(to.cross_entropy_loss);
  pass<&real, &Table::cross_entropy_of_parts>(to.cross_entropy_of_parts);
  pass<&real, &Table::form_logits>(to.form_logits);
  pass<&real, &Table::label_logits>(to.label_logits);
  pass<&real, &Table::exponentials>(to.exponentials);
  pass<&real, &Table::split_squares>(to.split_squares);
  pass<&real, &Table::split_rstd>(to.split_rstd);
  pass<&real, &Table::muon_begin>(to.muon_begin);
  pass<&real, &Table::muon_move>(to.muon_move);
  pass<&real, &Table::divide_by_norm>(to.divide_by_norm);
  pass<&real, &Table::quintic_factor>(to.quintic_factor);
  pass<&real, &Table::rope_table>(to.rope_table);
  pass<&real, &Table::lamb_direction>(to.lamb_direction);
  pass<&real, &Table::lamb_move>(to.lamb_move);
  pass<&real, &Table::lion>(to.lion);
  pass<&real, &Table::sgd>(to.sgd);
  pass<&real, &Table::squared_norm>(to.squared_norm);
  pass<&real, &Table::any_reaches>(to.any_reaches);
  pass<&real, &Table::tree_add>(to.tree_add);
  pass<&real, &Table::tree_add_to_both>(to.tree_add_to_both);
  pass<&real, &Table::merge_partial_softmax>(to.merge_partial_softmax);
  pass<&real, &Table::clear>(to.clear);
  pass<&real, &Table::copy_bytes>(to.copy_bytes);
  pass<&real, &Table::copy_spaced_bytes>(to.copy_spaced_bytes);
}

}  // namespace

const kernels::DeviceKernels& table() {
  static const kernels::DeviceKernels kAll = [] {
    kernels::DeviceKernels all;
    fill_elements(all.fp32);
    fill_elements(all.bf16);
    fill_elements(all.fp16);
    fill_products(all.products.fp32);
    fill_products(all.products.bf16);
    fill_products(all.products.fp16);
    fill_fused(all.fused.fp32);
    fill_fused(all.fused.bf16);
    fill_fused(all.fused.fp16);
    fill_the_rest(all);
    return all;
  }();
  return kAll;
}

}  // namespace fm::emulated

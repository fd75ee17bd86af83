#include "device/fake/fake_kernels.h"

#include <type_traits>

#include "device/fake/later.h"

namespace fm::device {
namespace {

template <class T>
void fill(kernels::ElementTable<T, kernels::WithWork>& table) {
  table.activate = Later<&kernels::activate<T>>::run;
  table.activate_backward = Later<&kernels::activate_backward<T>>::run;
  table.add_bias = Later<&kernels::add_bias<T>>::run;
  table.add_residual = Later<&kernels::add_residual<T>>::run;
  table.column_sums = Later<&kernels::column_sums<T>>::run;
  table.dropout = Later<&kernels::dropout<T>>::run;
  table.embedding = Later<&kernels::embedding<T>>::run;
  table.embedding_part = Later<&kernels::embedding_part<T>>::run;
  table.embedding_backward = Later<&kernels::embedding_backward<T>>::run;
  table.glu = Later<&kernels::glu<T>>::run;
  table.glu_backward = Later<&kernels::glu_backward<T>>::run;
  table.layernorm_statistics = Later<&kernels::layernorm_statistics<T>>::run;
  table.layernorm_apply = Later<&kernels::layernorm_apply<T>>::run;
  table.layernorm_backward = Later<&kernels::layernorm_backward<T>>::run;
  table.rmsnorm_rstd = Later<&kernels::rmsnorm_rstd<T>>::run;
  table.rmsnorm_apply = Later<&kernels::rmsnorm_apply<T>>::run;
  table.rmsnorm_backward = Later<&kernels::rmsnorm_backward<T>>::run;
  table.rope = Later<&kernels::rope<T>>::run;
  table.rope_inverse = Later<&kernels::rope_inverse<T>>::run;
  table.scale = Later<&kernels::scale<T>>::run;
  table.split_input = Later<&kernels::split_input<T>>::run;
  table.split_products = Later<&kernels::split_products<T>>::run;
  table.swiglu = Later<&kernels::swiglu<T>>::run;
  table.swiglu_backward = Later<&kernels::swiglu_backward<T>>::run;
  if constexpr (!std::is_same_v<T, float>) {
    table.widen = Later<&kernels::cast_rows<T, float>>::run;
    table.narrow = Later<&kernels::cast_rows<float, T>>::run;
  }
}

void fill_the_rest(kernels::DeviceKernels& table) {
  table.add = Later<&kernels::add>::run;
  table.add_squares = Later<&kernels::add_squares>::run;
  table.adamw = Later<&kernels::adamw>::run;
  table.adagrad = Later<&kernels::adagrad>::run;
  table.cross_entropy = Later<&kernels::cross_entropy>::run;
  table.cross_entropy_loss = Later<&kernels::cross_entropy_loss>::run;
  table.cross_entropy_of_parts = Later<&kernels::cross_entropy_of_parts>::run;
  table.divide_by_norm = Later<&kernels::divide_by_norm>::run;
  table.exponentials = Later<&kernels::exponentials>::run;
  table.form_logits = Later<&kernels::form_logits>::run;
  table.label_logits = Later<&kernels::label_logits>::run;
  table.lamb_direction = Later<&kernels::lamb_direction>::run;
  table.lamb_move = Later<&kernels::lamb_move>::run;
  table.lion = Later<&kernels::lion>::run;
  table.muon_begin = Later<&kernels::muon_begin>::run;
  table.muon_move = Later<&kernels::muon_move>::run;
  table.quintic_factor = Later<&kernels::quintic_factor>::run;
  table.rope_table = Later<&kernels::rope_table>::run;
  table.sgd = Later<&kernels::sgd>::run;
  table.split_rstd = Later<&kernels::split_rstd>::run;
  table.split_squares = Later<&kernels::split_squares>::run;
  table.any_reaches = Later<&kernels::any_reaches>::run;
  table.squared_norm = Later<&kernels::squared_norm>::run;
  table.tree_add_to_both = Later<&kernels::tree_add_to_both>::run;
  table.clear = Later<&kernels::clear>::run;
  table.copy_bytes = Later<&kernels::copy_bytes>::run;
  table.copy_spaced_bytes = Later<&kernels::copy_spaced_bytes>::run;
}

}  // namespace

const kernels::DeviceKernels& fake_kernels() {
  static const kernels::DeviceKernels kAll = [] {
    kernels::DeviceKernels table;
    fill(table.fp32);
    fill(table.bf16);
    fill(table.fp16);
    fill_products(table);
    fill_the_rest(table);  // sums of rows of ranks are for the host
    return table;
  }();
  return kAll;
}

}  // namespace fm::device

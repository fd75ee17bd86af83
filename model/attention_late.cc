// LibTorch takes 0.15 s to load, and only --attention torch uses it.
#include "core/late_library.h"
#include "model/attention_kinds.h"

namespace fm::model {

const TorchAttention& torch_attention() {
  using Get = const TorchAttention* (*)();
  static const TorchAttention& kAttention =
      *reinterpret_cast<Get>(core::late_symbol("libfm_torch_attention.so", "fm_torch_attention"))();
  return kAttention;
}

}  // namespace fm::model

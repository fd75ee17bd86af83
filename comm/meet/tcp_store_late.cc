// LibTorch takes 0.15 s to load, and only ranks that torchrun starts use it.
#include "comm/meet/store.h"
#include "core/late_library.h"

namespace fm::comm {

std::unique_ptr<MeetingStore> open_torch_store(const StoreOptions& options) {
  using Open = MeetingStore* (*)(const StoreOptions&);
  static const auto kOpen =
      reinterpret_cast<Open>(core::late_symbol("libfm_torch_store.so", "fm_open_torch_store"));
  return std::unique_ptr<MeetingStore>(kOpen(options));
}

}  // namespace fm::comm

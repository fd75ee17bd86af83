// Builds without CUDA find no device: cmake/cuda.cmake says what was missing.
#include "core/check.h"
#include "device/cuda.h"

namespace fm::device {

CudaSearch search_cuda() { return {{}, {}, problem_of({}), false}; }

std::unique_ptr<core::Device> open_cuda(int, CardAttends) {
  throw core::UserError(core::ExitCode::kConfigError, problem_of({}));
}

CudaCard card_of(const core::Device&) { FM_CHECK(false, "a build without CUDA opens no card"); }
void use_card(const core::Device&) { FM_CHECK(false, "a build without CUDA opens no card"); }
std::shared_ptr<core::Queue> new_queue(core::Device&) {
  FM_CHECK(false, "a build without CUDA opens no card");
}
std::vector<std::string> cuda_libraries() { return {}; }
std::function<void*(const char*)> nccl_functions() {
  FM_CHECK(false, "a build without CUDA opens no card");
}

}  // namespace fm::device

#include "device/cuda/cuda_device.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/check.h"
#include "core/process.h"
#include "device/cuda/cuda_call.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/kernel_table.h"

namespace fm::device::cuda {
namespace {

// What cuBLASLt wants from architecture 9.0 on; kernels share it.
constexpr std::int64_t kWorkspace = std::int64_t{32} << 20;

bool is(const char* variable, std::string_view value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && text == value;
}

OpenCard make_card(int number, const CudaCard& facts) {
  return {.number = number,
          .name = core::concat("GPU ", number, " of ", core::host_name(), " (", facts.name, ", ",
                               facts.uuid, ")"),
          .multiprocessors = facts.multiprocessors,
          .checks = is("FME_DEVICE_CHECK", "1"),
          .kernels = &kernel_table()};
}

// Where winners and plans are kept: $XDG_CACHE_HOME/fmengine, else ~/.cache/fmengine; "": nowhere.
std::filesystem::path cache_folder() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0) {
    return std::filesystem::path(cache) / "fmengine";
  }
  const char* const home = std::getenv("HOME");
  return home == nullptr ? std::filesystem::path()
                         : std::filesystem::path(home) / ".cache" / "fmengine";
}

void warn(const std::string& text) {
  std::fprintf(stderr, "fmengine: warning: %s\n", text.c_str());
}

// FME_GEMM=tuned compares the library's algorithms; without it no timing decides anything.
ProductOptions product_options(const CudaCard& facts, LapClock& clock) {
  if (!is("FME_GEMM", "tuned")) return {};
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return {.tuning = {.clock = &clock,
                     .folder = cache_folder(),
                     .card = facts.name,
                     .driver = std::to_string(driver),
                     .warn = warn}};
}

enum class AttentionChoice : std::uint8_t { kRepeatable, kFast, kOwn };
AttentionChoice attention_choice() {
  const char* const text = std::getenv("FME_ATTENTION");
  const std::string_view wanted = text == nullptr ? "" : text;
  FM_USER_CHECK(wanted.empty() || wanted == "own" || wanted == "fast",
                "FME_ATTENTION must be own or fast; correct it, or unset it (", wanted, ")");
  if (wanted.empty()) return AttentionChoice::kRepeatable;
  return wanted == "own" ? AttentionChoice::kOwn : AttentionChoice::kFast;
}

}  // namespace

CudaDevice::CudaDevice(int number, CudaCard facts, CardAttends attends)
    : facts_(std::move(facts)), card_(make_card(number, facts_)) {
  card_.times = &times_;
  card_.use();
  check(cudaMalloc(&workspace_, static_cast<std::size_t>(kWorkspace)), card_.name,
        "the work space of products");
  products_ = std::make_unique<CardProducts>(card_.name, product_options(facts_, laps_));
  compute_ = std::make_unique<CudaQueue>(card_, memory_, Priority::kNormal);
  facts_.libraries = products_->library() + ", attention own";
  if (attends == CardAttends::kByLibrary) open_attention();
  compute_->give({workspace_, core::Bytes(kWorkspace)}, *products_, attention_.get());
  in_ = std::make_unique<CudaQueue>(card_, memory_, Priority::kNormal);
  out_ = std::make_unique<CudaQueue>(card_, memory_, Priority::kNormal);
  const MemoryNow now = memory_now();
  facts_.free = now.free;
  facts_.memory = now.all;
}

CudaDevice::MemoryNow CudaDevice::memory_now() const {
  card_.use();
  std::size_t free = 0;
  std::size_t all = 0;
  check(cudaMemGetInfo(&free, &all), card_.name, "cudaMemGetInfo");
  return {core::Bytes(static_cast<std::int64_t>(free)),
          core::Bytes(static_cast<std::int64_t>(all))};
}

void CudaDevice::open_attention() {
  const AttentionChoice choice = attention_choice();
  if (choice == AttentionChoice::kOwn) return;
  OpenedCudnn opened = open_cudnn({.number = card_.number,
                                   .name = facts_.name,
                                   .architecture = facts_.architecture,
                                   .folder = cache_folder(),
                                   .warn = warn});
  facts_.missing = opened.problem;
  if (opened.library == nullptr) return;
  const core::Bytes bytes = attention_memory(facts_.memory);
  check(cudaMalloc(&attention_workspace_, static_cast<std::size_t>(bytes.count())), card_.name,
        "the work space of attention; FME_ATTENTION=own does without");
  const bool repeatable = choice == AttentionChoice::kRepeatable;
  facts_.libraries = core::concat(products_->library(), ", attention of bf16 and fp16 ",
                                  opened.library->name(), repeatable ? "" : " (fast)");
  attention_ = std::make_unique<CardAttention>(
      std::move(opened.library), AttentionOptions{.architecture = facts_.architecture,
                                                  .workspace = {attention_workspace_, bytes},
                                                  .repeatable = repeatable,
                                                  .warn = warn});
}

CudaDevice::~CudaDevice() {
  for (const auto& queue : {compute_.get(), in_.get(), out_.get()}) queue->drop_kept();
  cudaDeviceSynchronize();
  attention_.reset();
  cudaFree(attention_workspace_);
  cudaFree(workspace_);
}

void* CudaDevice::CardMemory::allocate(core::Bytes bytes) {
  device_.card_.use();
  void* data = nullptr;
  const cudaError_t answer = cudaMalloc(&data, static_cast<std::size_t>(bytes.count()));
  if (answer == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // told to who asked, by null
    return nullptr;
  }
  check(answer, device_.card_.name, "cudaMalloc");
  device_.compute_->clear(data, bytes);
  return data;
}

void CudaDevice::CardMemory::release(void* data, core::Bytes) noexcept {
  cudaFree(data);  // waits for all queues
}

std::unique_ptr<core::JoinedMemory> CudaDevice::CardMemory::join(const core::JoinedParts&) {
  FM_CHECK(false, "memory of a GPU has one address");
}

void* CudaDevice::PinnedMemory::allocate(core::Bytes bytes) {
  card_.use();
  const auto size = static_cast<std::size_t>(bytes.count());
  void* data = nullptr;
  const cudaError_t answer = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  if (answer == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // told to who asked, by null
    return nullptr;
  }
  check(answer, card_.name, "cudaHostAlloc");
  std::memset(data, 0, size);
  return data;
}

void CudaDevice::PinnedMemory::release(void* data, core::Bytes) noexcept { cudaFreeHost(data); }

std::unique_ptr<core::JoinedMemory> CudaDevice::PinnedMemory::join(const core::JoinedParts&) {
  FM_CHECK(false, "pinned memory has one address");
}

}  // namespace fm::device::cuda

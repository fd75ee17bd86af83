#include "device/cuda/cuda_queue.h"

#include "core/check.h"
#include "device/cuda/cuda_call.h"

namespace fm::device::cuda {
namespace {

std::size_t size_of(core::Bytes bytes) { return static_cast<std::size_t>(bytes.count()); }

// What no result survives (FME_DEVICE_CHECK=1): NaN in every type.
constexpr int kPoison = 0xFF;

bool is_page_locked(const void* host) {
  cudaPointerAttributes facts{};
  const bool known = cudaPointerGetAttributes(&facts, host) == cudaSuccess;
  if (!known) cudaGetLastError();
  return known && facts.type == cudaMemoryTypeHost;
}

}  // namespace

void OpenCard::use() const {
  thread_local int used = -1;
  if (used == number) return;
  check(cudaSetDevice(number), name, "cudaSetDevice");
  used = number;
}

bool OpenCard::has_come(cudaEvent_t event, const char* during) const {
  use();
  const cudaError_t answer = cudaEventQuery(event);
  if (answer == cudaErrorNotReady) {
    cudaGetLastError();  // no error; a kernel that starts next shall not find it
    return false;
  }
  check(answer, name, during);
  return true;
}

void OpenCard::finish(cudaEvent_t event, const char* during) const {
  use();
  check(cudaEventSynchronize(event), name, during);
}

void OpenCard::drop(cudaEvent_t event) const noexcept {
  cudaSetDevice(number);
  cudaEventDestroy(event);
}

CudaEvent::CudaEvent(const OpenCard& card) : card_(card) {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), card_.name, "cudaEventCreate");
}

CudaEvent::~CudaEvent() { card_.drop(event_); }

void CudaEvent::record(cudaStream_t stream, const char* during) {
  during_ = during;
  check(cudaEventRecord(event_, stream), card_.name, during);
}

bool CudaEvent::has_come() const {
  if (!card_.has_come(event_, during_)) return false;
  card_.host->rethrow();
  card_.times->settle();
  return true;
}

void CudaEvent::finish() {
  card_.finish(event_, during_);
  card_.host->rethrow();
  card_.times->settle();
}

CudaQueue::CudaQueue(const OpenCard& card, core::MemorySource& memory, Priority priority)
    : card_(card), memory_(memory) {
  card_.use();
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), card_.name, "its priorities");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == Priority::kHighest ? highest : lowest),
        card_.name, "cudaStreamCreate");
}

CudaQueue::~CudaQueue() {
  drop_kept();
  cudaStreamDestroy(stream_);  // once what is queued is done
}

void CudaQueue::copy_in(const void* host, void* device, core::Bytes bytes) {
  if (bytes.count() == 0) return;
  card_.use();
  // CUDA may read memory that is not page-locked at once, before the queue comes to it.
  if (!is_page_locked(host)) check(cudaStreamSynchronize(stream_), card_.name, during_);
  check(cudaMemcpyAsync(device, host, size_of(bytes), cudaMemcpyHostToDevice, stream_), card_.name,
        "a copy to the GPU");
}

void CudaQueue::copy_out(const void* device, void* host, core::Bytes bytes) {
  if (bytes.count() == 0) return;
  card_.use();
  check(cudaMemcpyAsync(host, device, size_of(bytes), cudaMemcpyDeviceToHost, stream_), card_.name,
        during_);
}

void CudaQueue::forget(void* device, core::Bytes bytes) {
  if (!card_.checks || bytes.count() == 0) return;
  check(cudaMemsetAsync(device, kPoison, size_of(bytes), stream_), card_.name, "cudaMemset");
}

void CudaQueue::clear(void* device, core::Bytes bytes) {
  card_.use();
  check(cudaMemsetAsync(device, 0, size_of(bytes), stream_), card_.name, "cudaMemset");
}

void CudaQueue::tell_time(std::int64_t* ns) {
  card_.use();
  card_.times->tell(stream_, ns);
}

core::EventPtr CudaQueue::record() {
  card_.use();
  auto event = std::make_shared<CudaEvent>(card_);
  event->record(stream_, during_);
  return event;
}

void CudaQueue::wait(core::EventPtr event) {
  card_.use();
  if (const auto* const other = dynamic_cast<CudaEvent*>(event.get())) {
    check(cudaStreamWaitEvent(stream_, other->handle(), 0), card_.name, "cudaStreamWaitEvent");
  } else {
    event->finish();
  }
}

void CudaQueue::check_start(const char* kernel) const {
  during_ = kernel;
  check(cudaGetLastError(), card_.name, kernel);
  if (card_.checks) check(cudaStreamSynchronize(stream_), card_.name, kernel);
}

CardProducts& CudaQueue::products() const {
  FM_CHECK(products_ != nullptr, "this queue multiplies nothing");
  return *products_;
}

void CudaQueue::give(kernels::cuda::Workspace workspace, CardProducts& products,
                     CardAttention* attention) {
  workspace_ = workspace;
  products_ = &products;
  attention_ = attention;
}

}  // namespace fm::device::cuda

#include "device/cuda/cuda_host_calls.h"

#include "device/cuda/cuda_call.h"

namespace fm::device::cuda {
namespace {

// The driver's thread may not see an exception.
struct DriverTask {
  std::function<void()> run;
  std::shared_ptr<HostFailure> failure;
};
void run_task(void* data) {
  const std::unique_ptr<DriverTask> task(static_cast<DriverTask*>(data));
  try {
    task->run();
  } catch (...) {
    task->failure->set(std::current_exception());
  }
}

}  // namespace

void CudaHostCalls::call(std::function<void()> task) {
  card_.use();
  auto held = std::make_unique<DriverTask>(DriverTask{std::move(task), card_.host});
  check(cudaLaunchHostFunc(static_cast<cudaStream_t>(queue_.handle()), run_task, held.get()),
        card_.name, "cudaLaunchHostFunc");
  static_cast<void>(held.release());  // run_task owns it
}

}  // namespace fm::device::cuda

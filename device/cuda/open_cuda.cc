#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>

#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "device/card_files.h"
#include "device/cuda/cuda_call.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/late_library.h"

namespace fm::device {
namespace {

using cuda::CudaDevice;

CudaAnswers ask() {
  CudaAnswers answers;
  answers.built = true;
  if (void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); driver != nullptr) {
    answers.driver_found = true;  // it stays: the runtime opens it next
  }
  answers.error = static_cast<int>(cudaGetDeviceCount(&answers.count));
  cudaGetLastError();
  if (answers.error != 0) answers.count = 0;
  cudaDriverGetVersion(&answers.driver_version);
  cudaRuntimeGetVersion(&answers.runtime_version);
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr) {
    answers.visible = visible;
  }
  answers.files = card_files();
  return answers;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kHex[byte >> 4];
    text += kHex[byte & 15];
  }
  return text;
}

CudaCard facts_of(int number) {
  cudaDeviceProp facts;
  cuda::check(cudaGetDeviceProperties(&facts, number), core::concat("GPU ", number),
              "cudaGetDeviceProperties");
  return {.name = facts.name,
          .uuid = uuid_text(facts.uuid),
          .architecture = 10 * facts.major + facts.minor,
          .multiprocessors = facts.multiProcessorCount,
          .memory = core::Bytes(static_cast<std::int64_t>(facts.totalGlobalMem)),
          .free = {}};
}

std::string cards_text(const std::vector<CudaCard>& cards) {
  std::string text;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    text += core::concat(i == 0 ? "" : ", ", "cuda:", i, " ", cards[i].name);
  }
  return text;
}

}  // namespace

CudaSearch search_cuda() {
  CudaSearch search;
  search.answers = ask();
  search.problem = problem_of(search.answers);
  search.is_fault = is_fault(search.answers);
  if (!search.problem.empty()) return search;
  try {
    for (int i = 0; i < search.answers.count; ++i) search.cards.push_back(facts_of(i));
  } catch (const core::Error& error) {
    search.cards.clear();
    search.problem = error.what();
    search.is_fault = true;
  }
  return search;
}

std::unique_ptr<core::Device> open_cuda(int number, CardAttends attends) {
  const CudaSearch search = search_cuda();
  require_none(search.problem, search.is_fault);
  FM_MACHINE_CHECK(
      static_cast<std::size_t>(number) < search.cards.size() || !has_lost_cards(search.answers),
      core::ExitCode::kDeviceFailed,
      "the driver must show every GPU of its machine; `dmesg | grep -i xid` says "
      "whether a card failed: take the host out of service (cuda:",
      number, " on ", core::host_name(), "; the machine has ",
      core::join(search.answers.files, ", "), ", the driver shows ", cards_text(search.cards), ")");
  FM_USER_CHECK(static_cast<std::size_t>(number) < search.cards.size(),
                "--device cuda:N must name a GPU that the process sees; choose another, or start "
                "no more ranks per host than it has GPUs (cuda:",
                number, "; there are ", cards_text(search.cards), ")");
  CudaCard card = search.cards[static_cast<std::size_t>(number)];
  FM_USER_CHECK(runs_on(card.architecture),
                "a GPU must be of an architecture that this build has kernels for: ",
                architectures_text(), "; choose another, or run with --device cpu (", card.name,
                " has ", card.architecture / 10, ".", card.architecture % 10, ")");
  return std::make_unique<CudaDevice>(number, std::move(card), attends);
}

CudaCard card_of(const core::Device& device) {
  return dynamic_cast<const CudaDevice&>(device).facts();
}

void use_card(const core::Device& device) { dynamic_cast<const CudaDevice&>(device).use(); }

std::shared_ptr<core::Queue> new_queue(core::Device& device) {
  return dynamic_cast<CudaDevice&>(device).new_queue();
}

std::vector<std::string> cuda_libraries() { return cuda::library_lines(); }

std::function<void*(const char*)> nccl_functions() {
  const auto library = std::make_shared<cuda::LateLibrary>(name_of(cuda::Library::kNccl));
  return [library](const char* name) { return library->symbol(name); };
}

}  // namespace fm::device

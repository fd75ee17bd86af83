// CUDA devices: what this machine has, and one of them for a rank. A build without CUDA has a twin
// of it that finds none (device/no_cuda.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "device/cuda_problem.h"

namespace fm::device {

struct CudaCard {
  std::string name;      // "NVIDIA H100 80GB HBM3"
  std::string uuid;      // "GPU-6c3e...": which one, whatever CUDA_VISIBLE_DEVICES calls it
  int architecture = 0;  // 10 major + minor
  int multiprocessors = 0;
  core::Bytes memory;
  core::Bytes free;  // now, beside this process's context
  // Of an open one: "cuBLASLt 13.1.0, attention of bf16 and fp16 cuDNN 9.19.0".
  std::string libraries = "";
  std::string missing =
      "";  // why attention is by our own kernels; "": it is not, or was asked to be
};

// The work space that a card of this memory keeps for attention by cuDNN: a 64th of it, at most
// 1,104 MiB, which 32 heads of 4,096 queries need to add in one order.
constexpr core::Bytes attention_memory(core::Bytes card) {
  constexpr std::int64_t kMost = std::int64_t{1104} << 20;
  constexpr std::int64_t kWhole = std::int64_t{1} << 20;
  const std::int64_t share = card.count() / 64 / kWhole * kWhole;
  return core::Bytes(share < kMost ? share : kMost);
}

struct CudaSearch {
  CudaAnswers answers;
  std::vector<CudaCard> cards;  // that the process sees, in its order
  std::string problem;          // why there is none, and what to do; "": there are some
  bool is_fault = false;        // is_fault(answers), or a card does not say what it is
};
// Never throws. Makes no context: `free` is 0.
CudaSearch search_cuda();

// Who attends: a library where there is one, or our own kernels alone. A library makes a plan for
// every length of a row, which is too much for prompts.
enum class CardAttends : std::uint8_t { kByLibrary, kByOurKernels };

// Card `number` of those that the process sees, ready to compute. Throws UserError (10) where this
// build or machine cannot, MachineError where the card fails (27) or is full (25).
std::unique_ptr<core::Device> open_cuda(int number, CardAttends attends = CardAttends::kByLibrary);

// Of a device that open_cuda has opened: its facts; CUDA's choice of a device; and one more queue
// of it, which goes before the others.
CudaCard card_of(const core::Device& device);
void use_card(const core::Device& device);  // in the calling thread
std::shared_ptr<core::Queue> new_queue(core::Device& device);

// A line of --report for each of NVIDIA's libraries: where it is, or how to get it.
std::vector<std::string> cuda_libraries();

// The functions of NVIDIA's NCCL by name, which is opened by the call. UserError (10) where it is
// missing.
std::function<void*(const char* name)> nccl_functions();

}  // namespace fm::device

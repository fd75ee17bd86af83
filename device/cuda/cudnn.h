// NVIDIA's cuDNN, which is opened late, as a library of attention.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "device/cuda/card_attention.h"

namespace fm::device::cuda {

// What plans are made for. Making one takes a second or two, because cuDNN compiles it; `folder`
// keeps them, by card, library and piece.
struct CudnnCard {
  int number = 0;                // of the CUDA device, which is current
  std::string name = "";         // "NVIDIA H100 80GB HBM3"
  int architecture = 0;          // 90 for 9.0
  std::string description = "";  // JSON of a card that is not here: plans are made, but never run
  std::filesystem::path folder = {};  // of plans; "": none are kept
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

struct OpenedCudnn {
  std::unique_ptr<AttentionLibrary> library;  // null: see problem
  std::string problem;                        // "the library cuDNN 9 is required; ..."
};
// Never throws for want of the library, or because it is too old.
OpenedCudnn open_cudnn(const CudnnCard& card);

}  // namespace fm::device::cuda

// What CUDA answers on a machine, and what that means for who wants to train there.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fm::device {

// Numbers are cudaError_t: NVIDIA's, the same in every version.
struct CudaAnswers {
  bool built = false;                  // with CUDA
  int error = 0;                       // of the first call
  bool driver_found = false;           // libcuda.so.1
  int driver_version = 0;              // 1000 major + 10 minor of the CUDA that the driver knows
  int runtime_version = 0;             // of this build
  int count = 0;                       // devices that the process sees
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  std::vector<std::string> files;      // /dev/nvidia0, ...: what the machine has
};

// 13000: "13.0".
std::string cuda_version_text(int version);

// Why no device can be used, with the cure; "": the answers are those of a machine that has some.
std::string problem_of(const CudaAnswers& answers);
// The driver or a card does not work, rather than that there is none: another start may find it
// mended, and another host has it not.
bool is_fault(const CudaAnswers& answers);
// Throws a problem that is not "": UserError (10), of a fault MachineError (27) with this host.
void require_none(const std::string& problem, bool is_fault);
// The machine has more cards than the driver shows to a process that asked for all.
bool has_lost_cards(const CudaAnswers& answers);

// What an error of a card means, for a message: `during` is what was queued last.
std::string fault_text(int error, const std::string& name, const std::string& text,
                       const std::string& during);
// The same of one that has no memory left for `what`; `left`: "1.2 GB of 80 GB".
std::string full_text(const std::string& name, const std::string& what, const std::string& left);

// A card of this architecture (10 major + minor) runs this build's kernels.
bool runs_on(int architecture);
std::string architectures_text();  // "8.0, 9.0, 10.0 and newer"

}  // namespace fm::device

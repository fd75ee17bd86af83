#include "device/cuda_problem.h"

#include <string_view>

#include "core/check.h"
#include "core/process.h"
#include "core/text.h"

namespace fm::device {
namespace {

using core::concat;

// Numbers of CUDA.
constexpr int kOldDriver = 35;
constexpr int kBusy = 46;
constexpr int kNoDevice = 100;
constexpr int kBadDevice = 101;
constexpr int kNoKernelImage = 209;
constexpr int kUncorrectable = 214;
constexpr int kUnsupportedToolchain = 222;
constexpr int kNotReady = 802;
constexpr int kDriverMismatch = 803;

constexpr std::string_view kBusyText =
    "the GPU must be free for this process; another one has it for itself (see `nvidia-smi`: its "
    "compute mode, and who computes)";

std::string files_text(const CudaAnswers& answers) {
  return answers.files.empty() ? "this machine has no /dev/nvidia0"
                               : "this machine has " + core::join(answers.files, ", ");
}

std::string no_device_text(const CudaAnswers& answers) {
  if (answers.visible) {
    return concat(
        "CUDA_VISIBLE_DEVICES must name a GPU of this machine; correct it or unset it "
        "(CUDA_VISIBLE_DEVICES=",
        *answers.visible, "; ", files_text(answers), ")");
  }
  return concat(
      "a GPU must be there for the driver to find; check `nvidia-smi`, and in a container that it "
      "was started with its GPUs, or run with --device cpu (",
      files_text(answers), ")");
}

}  // namespace

std::string cuda_version_text(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

std::string problem_of(const CudaAnswers& answers) {
  if (!answers.built) {
    return "this build of fmengine has no CUDA: where it was made nvcc 13 or a header was missing "
           "(cublasLt.h, nccl.h), or FM_CUDA=OFF left it out; build it with FM_CUDA=ON "
           "scripts/build.sh, which names what is missing, or run with --device cpu";
  }
  if (answers.error == 0 && answers.count > 0) return "";
  if (answers.error == 0) return no_device_text(answers);
  switch (answers.error) {
    case kOldDriver:
      if (!answers.driver_found) {
        return concat("a GPU needs NVIDIA's driver, which is not installed here; install version ",
                      "580 or newer, or run with --device cpu (no libcuda.so.1; ",
                      files_text(answers), ")");
      }
      return concat("NVIDIA's driver must be 580 or newer; update it, or run with --device cpu ",
                    "(it knows CUDA ", cuda_version_text(answers.driver_version),
                    ", this build was made with ", cuda_version_text(answers.runtime_version), ")");
    case kNoDevice:
    case kBadDevice: return no_device_text(answers);
    case kBusy: return std::string(kBusyText);
    case kNotReady:
      return "the GPUs of this machine are not ready; start nvidia-fabricmanager in the version of "
             "the driver";
    case kDriverMismatch:
      return concat("the driver's kernel module and its library must be of one version; restart ",
                    "the machine or the container after an update (libcuda.so.1 knows CUDA ",
                    cuda_version_text(answers.driver_version), ")");
    default:  // there are hundreds; the number leads on
      return concat("NVIDIA's driver must start; see `nvidia-smi` and `dmesg`, or run with ",
                    "--device cpu (CUDA error ", answers.error, ")");
  }
}

bool is_fault(const CudaAnswers& answers) {
  switch (answers.error) {
    case 0:
    case kOldDriver:
    case kNoDevice:
    case kBadDevice: return false;
    default: return answers.built;  // there are hundreds, all of them faults
  }
}

void require_none(const std::string& problem, bool is_fault) {
  FM_MACHINE_CHECK(problem.empty() || !is_fault, core::ExitCode::kDeviceFailed, problem, " (on ",
                   core::host_name(), ")");
  FM_USER_CHECK(problem.empty(), problem);
}

bool has_lost_cards(const CudaAnswers& answers) {
  return answers.count > 0 && !answers.visible &&
         answers.files.size() > static_cast<std::size_t>(answers.count);
}

std::string fault_text(int error, const std::string& name, const std::string& text,
                       const std::string& during) {
  const std::string values =
      concat(" (CUDA error ", error, ", ", text, "; ", name, ", in or before ", during, ")");
  switch (error) {
    case kBusy: return concat(kBusyText, values);
    case kUncorrectable:
      return "a GPU must keep its memory; this one lost some (ECC): take it out of service, and go "
             "on from the last checkpoint on others" +
             values;
    case kNoKernelImage:
    case kUnsupportedToolchain:
      return concat("a GPU must be of an architecture that this build has kernels for: ",
                    architectures_text(), values);
    default:  // there are hundreds; the number leads on
      return "a GPU must finish what it was given; `dmesg | grep -i xid` of its host says whether "
             "the card failed, else it is a defect of fmengine: run it again with "
             "FME_DEVICE_CHECK=1, which waits for every kernel and names the one that fails, and "
             "report it" +
             values;
  }
}

std::string full_text(const std::string& name, const std::string& what, const std::string& left) {
  return concat("a GPU must have memory for ", what,
                "; see `nvidia-smi` for who else uses it, and end that or choose another GPU (",
                name, "; free: ", left, ")");
}

bool runs_on(int architecture) { return architecture >= 80; }

std::string architectures_text() { return "8.0, 8.6, 8.9, 9.0, 10.0 and newer"; }

}  // namespace fm::device

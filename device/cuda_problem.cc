#include "device/cuda_problem.h"

#include "core/check.h"
#include "core/text.h"

namespace fm::device {
namespace {

using core::concat;

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
  constexpr int kBusy = 46;
  constexpr int kOldDriver = 35;
  constexpr int kNoDevice = 100;
  constexpr int kBadDevice = 101;
  constexpr int kNotReady = 802;
  constexpr int kDriverMismatch = 803;
  if (!answers.built) {
    return "this build of fmengine has no CUDA; configure it with -DFM_CUDA=ON where nvcc 13 is "
           "installed, or run with --device cpu";
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
    case kBusy:
      return "the GPU must be free for this process; another one has it for itself (see "
             "`nvidia-smi`: its compute mode, and who computes)";
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

std::string fault_text(int error, const std::string& name, const std::string& text,
                       const std::string& during) {
  constexpr int kNoKernelImage = 209;
  constexpr int kUncorrectable = 214;
  constexpr int kUnsupportedToolchain = 222;
  const std::string values =
      concat(" (CUDA error ", error, ", ", text, "; ", name, ", in or before ", during, ")");
  if (error == kUncorrectable) {
    return "a GPU must keep its memory; this one lost some (ECC): take it out of service, and go "
           "on from the last checkpoint on others" +
           values;
  }
  if (error == kNoKernelImage || error == kUnsupportedToolchain) {
    return concat("a GPU must be of an architecture that this build has kernels for: ",
                  architectures_text(), values);
  }
  return "a GPU must finish what it was given; this is a defect of fmengine or of the card: run it "
         "again with FME_DEVICE_CHECK=1, which waits for every kernel and names the one that "
         "fails, and report it" +
         values;
}

bool runs_on(int architecture) { return architecture >= 80; }

std::string architectures_text() { return "8.0, 8.6, 8.9, 9.0, 10.0 and newer"; }

}  // namespace fm::device

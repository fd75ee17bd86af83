// NVIDIA's libraries, opened when a device needs them: one program starts everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fm::device::cuda {

struct LateLibraryName {
  std::string what;                // "cuBLASLt 13", for messages
  std::vector<std::string> files;  // "libcublasLt.so.13": the first that is there
  std::string package;             // of PyPI: "nvidia-cublas"
};

// Those that a card is used with.
enum class Library : std::uint8_t { kCublasLt, kCudnn, kRuntime, kNvrtc, kNccl };
LateLibraryName name_of(Library library);

// It is sought
//   1. in the folders of the environment variable FME_CUDA_LIBS (separated by colons),
//   2. where the system's loader looks,
//   3. in the packages of NVIDIA of the Python that the environment variable FME_PYTHON names, a
//      program or its path, or else of `python3` or `python` in PATH.
// A file that lies in a folder of 1 or 3 is taken: that it cannot be loaded is an error.
//
// Thread:   any.
// Lifetime: the library stays open as long as the process; functions outlive this object.
class LateLibrary {
 public:
  // UserError (10) where there is none, or none that loads; MachineError (25) where memory is
  // short.
  explicit LateLibrary(LateLibraryName name);

  // `function` becomes the library's one of this name. UserError (10) where it has none.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  void* symbol(const char* name) const;
  const std::string& path() const { return path_; }  // of the file
  void* handle() const { return library_; }          // of dlopen

 private:
  LateLibraryName name_;
  void* library_ = nullptr;
  std::string path_;
};

// Opens what NVRTC asks the system's loader for by its name alone, where it lies beside NVRTC: in
// NVIDIA's packages, whose folder the loader does not know.
void open_builtins_of(const LateLibrary& nvrtc);

// Of each of them where it is, or what it is for and how to get it: a line.
std::vector<std::string> library_lines();

// The folders of step 3, whether they hold anything or not.
std::vector<std::string> python_library_folders();

}  // namespace fm::device::cuda

#include "device/cuda/late_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/check.h"
#include "core/text.h"

namespace fm::device::cuda {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Those that are not empty.
std::vector<std::string> folders_of(const char* variable) {
  std::vector<std::string> folders = core::split(environment(variable), ':');
  std::erase(folders, "");
  return folders;
}

std::string listed(const std::vector<std::string>& words) {
  return words.empty() ? "none" : core::join(words, ", ");
}

std::vector<std::string> present(std::vector<std::string> folders) {
  std::erase_if(folders, [](const std::string& folder) {
    std::error_code unreadable;
    return !fs::is_directory(folder, unreadable);
  });
  return folders;
}

// "" where there is none.
fs::path program_in_path(const std::string& name) {
  for (const std::string& folder : folders_of("PATH")) {
    fs::path program = fs::path(folder) / name;
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

fs::path python() {
  std::string named = environment("FME_PYTHON");
  if (named.find('/') != named.npos) return named;
  if (!named.empty()) return program_in_path(named);
  const fs::path newer = program_in_path("python3");
  return newer.empty() ? program_in_path("python") : newer;
}

// The folders `<under>/python3*/site-packages`, and those that Debian calls dist-packages.
void add_packages(const fs::path& under, std::vector<fs::path>& found) {
  std::vector<fs::path> versions;
  std::error_code problem;
  for (fs::directory_iterator at(under, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (at->path().filename().string().starts_with("python3")) versions.push_back(at->path());
  }
  std::ranges::sort(versions);
  for (const fs::path& version : versions) {
    for (const char* const packages : {"site-packages", "dist-packages"}) {
      const fs::path folder = version / packages;
      if (fs::is_directory(folder, problem)) found.push_back(folder);
    }
  }
}

// What the loader says of a library that it does not find, rather than does not load.
bool is_absent(const std::string& file, const std::string& problem) {
  return problem.starts_with(file + ": cannot open shared object file: No such file");
}

// The words of glibc's loader where memory is short.
void check_memory(const std::string& what, const std::string& problem) {
  const bool is_short = problem.find("allocate memory") != problem.npos ||
                        problem.find("failed to map segment") != problem.npos;
  FM_MACHINE_CHECK(!is_short, core::ExitCode::kOutOfMemory, "the library ", what,
                   " needs address space; raise `ulimit -v` or free memory (", problem, ")");
}

// Null where it does not load; `problem` says why.
void* open_library(const std::string& what, const std::string& file, std::string& problem) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  problem = dlerror();
  check_memory(what, problem);
  return nullptr;
}

// The first of the files that lies in one of the folders; null where none does.
void* open_in(const std::vector<std::string>& folders, const LateLibraryName& name) {
  for (const std::string& folder : folders) {
    for (const std::string& file : name.files) {
      const fs::path path = fs::path(folder) / file;
      std::error_code unreadable;
      if (!fs::exists(path, unreadable)) continue;
      std::string problem;
      void* const library = open_library(name.what, path.string(), problem);
      FM_USER_CHECK(library != nullptr, "the library ", name.what,
                    " must be loadable where it lies; install the package ", name.package,
                    " again, or set FME_CUDA_LIBS to the folder of another one (", problem, ")");
      return library;
    }
  }
  return nullptr;
}

// By the system's loader; null where it has none. `problem` stays what it was, unless there is one
// that does not load.
void* open_anywhere(const LateLibraryName& name, std::string& problem) {
  for (const std::string& file : name.files) {
    std::string why;
    void* const library = open_library(name.what, file, why);
    if (library != nullptr) return library;
    if (!is_absent(file, why)) problem = why;
  }
  return nullptr;
}

std::string path_of(void* library) {
  const link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0 ? map->l_name : "?";
}

// ", 9.19.0", by the function that tells it; "" where there is none.
std::string version_of(Library library, void* handle) {
  std::int64_t version = 0;  // major * 10,000 + minor * 100 + patch, in all of them
  switch (library) {
    case Library::kCublasLt:
    case Library::kCudnn: {
      const char* const name =
          library == Library::kCudnn ? "cudnnGetVersion" : "cublasLtGetVersion";
      if (auto* const get = reinterpret_cast<std::size_t (*)()>(dlsym(handle, name))) {
        version = static_cast<std::int64_t>(get());
      }
      break;
    }
    case Library::kNccl:
      if (auto* const get = reinterpret_cast<int (*)(int*)>(dlsym(handle, "ncclGetVersion"))) {
        int number = 0;
        if (get(&number) == 0) version = number;
      }
      break;
    case Library::kRuntime:
    case Library::kNvrtc: break;
  }
  if (version == 0) return "";
  return core::concat(", ", version / 10'000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace

std::vector<std::string> python_library_folders() {
  const fs::path program = python();
  if (program.empty()) return {};
  std::error_code problem;
  std::vector<fs::path> prefixes = {program.parent_path().parent_path()};
  // The program of a virtual environment is a link to the one that it was made with.
  const fs::path itself = fs::canonical(program, problem);
  if (!problem) prefixes.push_back(itself.parent_path().parent_path());
  std::vector<fs::path> packages;
  for (const fs::path& prefix : prefixes) {
    for (const char* const under : {"lib", "lib64", "local/lib"}) {
      add_packages(prefix / under, packages);
    }
  }
  add_packages(fs::path(environment("HOME")) / ".local/lib", packages);
  std::vector<std::string> folders;
  for (const fs::path& folder : packages) {
    for (const char* const library : {"nvidia/cu13/lib", "nvidia/cudnn/lib", "nvidia/nccl/lib"}) {
      const std::string path = (folder / library).string();
      if (std::ranges::find(folders, path) == folders.end()) folders.push_back(path);
    }
  }
  return folders;
}

LateLibraryName name_of(Library library) {
  switch (library) {
    case Library::kCublasLt: return {"cuBLASLt 13", {"libcublasLt.so.13"}, "nvidia-cublas"};
    case Library::kCudnn: return {"cuDNN 9", {"libcudnn.so.9"}, "nvidia-cudnn-cu13"};
    case Library::kRuntime:
      return {"CUDA's runtime 13", {"libcudart.so.13"}, "nvidia-cuda-runtime"};
    case Library::kNvrtc: return {"NVRTC 13", {"libnvrtc.so.13"}, "nvidia-cuda-nvrtc"};
    case Library::kNccl: break;
  }
  return {"NCCL 2", {"libnccl.so.2"}, "nvidia-nccl-cu13"};
}

void open_builtins_of(const LateLibrary& nvrtc) {
  std::error_code problem;
  for (fs::directory_iterator at(fs::path(nvrtc.path()).parent_path(), problem), end;
       !problem && at != end; at.increment(problem)) {
    if (!at->path().filename().string().starts_with("libnvrtc-builtins.so.13.")) continue;
    dlopen(at->path().c_str(), RTLD_NOW | RTLD_LOCAL);  // NVRTC says what it misses
  }
}

std::vector<std::string> library_lines() {
  const struct {
    Library library;
    const char* use;
  } uses[] = {{Library::kCublasLt, "products"},
              {Library::kCudnn, "fast attention"},
              {Library::kRuntime, "cuDNN"},
              {Library::kNvrtc, "cuDNN"},
              {Library::kNccl, "several GPUs"}};
  std::vector<std::string> lines;
  for (const auto& each : uses) {
    const LateLibraryName name = name_of(each.library);
    const std::string line = core::concat("           ", name.what, ", for ", each.use, ": ");
    try {
      const LateLibrary opened(name);
      lines.push_back(line + opened.path() + version_of(each.library, opened.handle()));
    } catch (const core::Error&) {
      lines.push_back(core::concat(line, "missing; `pip install ", name.package, '`'));
    }
  }
  return lines;
}

LateLibrary::LateLibrary(LateLibraryName name) : name_(std::move(name)) {
  const std::vector<std::string> wanted = folders_of("FME_CUDA_LIBS");
  std::string problem = "has none";
  library_ = open_in(wanted, name_);
  if (library_ == nullptr) library_ = open_anywhere(name_, problem);
  if (library_ == nullptr) library_ = open_in(python_library_folders(), name_);
  if (library_ == nullptr) {
    const std::string program = python().string();
    throw core::UserError(
        core::ExitCode::kConfigError,
        core::concat(
            "the library ", name_.what, " is required; `pip install ", name_.package,
            "` for the Python that FME_PYTHON or PATH names, or set FME_CUDA_LIBS to the "
            "folder of ",
            listed(name_.files), " (folders of FME_CUDA_LIBS: ", listed(wanted),
            "; the system's loader: ", problem, "; Python: ", program.empty() ? "none" : program,
            ", with packages of NVIDIA in: ", listed(present(python_library_folders())), ")"));
  }
  path_ = path_of(library_);
}

void* LateLibrary::symbol(const char* name) const {
  void* const found = dlsym(library_, name);
  FM_USER_CHECK(found != nullptr, "the library ", name_.what, " must have the function ", name,
                "; install a newer package ", name_.package, " (", path_, ")");
  return found;
}

}  // namespace fm::device::cuda

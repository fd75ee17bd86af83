#include "core/process.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "core/check.h"

namespace fm::core {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

void* late_symbol(const char* library, const char* name) {
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const std::string problem = loaded != nullptr ? "" : dlerror();
  // The words of glibc's loader.
  const bool full = problem.find("allocate memory") != std::string::npos ||
                    problem.find("failed to map segment") != std::string::npos;
  FM_MACHINE_CHECK(!full, ExitCode::kOutOfMemory, "the library ", library,
                   " and LibTorch behind it need address space; raise `ulimit -v` or free memory (",
                   problem, ")");
  FM_USER_CHECK(loaded != nullptr, "the library ", library,
                " and LibTorch behind it must be loadable; build or install fmengine again (",
                problem, ")");
  void* const found = dlsym(loaded, name);
  FM_CHECK(found != nullptr, library, " holds no ", name);
  return found;
}

}  // namespace fm::core

// Stands in for NVIDIA's driver, libcuda.so.1, in tests of what the programs say without a GPU: the
// real CUDA runtime asks it, and it answers what the environment says.
//   FME_FAKE_DRIVER  version: 1000 major + 10 minor of CUDA; 13000 without it
//   FME_FAKE_INIT    what cuInit answers; 0 without it
//   FME_FAKE_COUNT   number of devices; 0 without it
#include <cstdlib>
#include <cstring>

namespace {

int number(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

// Whatever else is asked: CUDA_ERROR_UNKNOWN.
int refuse() { return 999; }

struct Entry {
  const char* name;
  void* function;
};

}  // namespace

extern "C" {

int cuInit(unsigned) { return number("FME_FAKE_INIT", 0); }

int cuDriverGetVersion(int* version) {
  *version = number("FME_FAKE_DRIVER", 13000);
  return 0;
}

int cuDeviceGetCount(int* count) {
  *count = number("FME_FAKE_COUNT", 0);
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long long, int* found) {
  const Entry entries[] = {
      {"cuInit", reinterpret_cast<void*>(cuInit)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(cuDriverGetVersion)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(cuDeviceGetCount)},
      {"cuGetProcAddress", reinterpret_cast<void*>(cuGetProcAddress_v2)},
  };
  *function = reinterpret_cast<void*>(refuse);
  for (const Entry& entry : entries) {
    if (std::strcmp(entry.name, name) == 0) *function = entry.function;
  }
  if (found != nullptr) *found = 0;
  return 0;
}

}  // extern "C"

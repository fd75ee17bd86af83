// Stands in for NVIDIA's driver, libcuda.so.1, where cuDNN makes plans for a card that is not here:
// what it loads is there, and nothing else answers.

namespace {

int give(void** out, unsigned long handle) {
  *out = reinterpret_cast<void*>(handle);
  return 0;
}

constexpr int kNotSupported = 34;  // cudaErrorStubLibrary
constexpr int kRegisters = 128;

}  // namespace

#define FM_REFUSES(function) \
  int function() { return kNotSupported; }

extern "C" {

int cuLibraryLoadData(void** library) { return give(library, 0x1000); }
int cuLibraryUnload(void*) { return 0; }
int cuLibraryGetKernel(void** kernel) { return give(kernel, 0x2000); }
int cuLibraryGetModule(void** module) { return give(module, 0x3000); }
int cuKernelGetFunction(void** function) { return give(function, 0x4000); }
int cuModuleLoadData(void** module) { return give(module, 0x3000); }
int cuModuleLoadDataEx(void** module) { return give(module, 0x3000); }
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function) { return give(function, 0x4000); }
int cuKernelSetAttribute() { return 0; }
int cuFuncSetAttribute() { return 0; }
int cuKernelGetAttribute(int* value) { return *value = kRegisters, 0; }
int cuFuncGetAttribute(int* value) { return *value = kRegisters, 0; }
int cuGetErrorName(int, const char** name) { return *name = "CUDA_ERROR_STUB_LIBRARY", 0; }
int cuGetErrorString(int, const char** text) { return *text = "stub library", 0; }

// What it loads and never calls here.
FM_REFUSES(cuDeviceGet)
FM_REFUSES(cuDeviceGetCount)
FM_REFUSES(cuGetProcAddress)
FM_REFUSES(cuGetProcAddress_v2)
FM_REFUSES(cuInit)
FM_REFUSES(cuLaunchCooperativeKernel)
FM_REFUSES(cuLaunchKernel)
FM_REFUSES(cuLaunchKernelEx)
FM_REFUSES(cuLibraryLoadFromFile)
FM_REFUSES(cuOccupancyMaxPotentialClusterSize)
FM_REFUSES(cuCtxGetCurrent)
FM_REFUSES(cuCtxGetLimit)
FM_REFUSES(cuCtxPopCurrent)
FM_REFUSES(cuCtxPushCurrent)
FM_REFUSES(cuDriverGetVersion)
FM_REFUSES(cuLinkAddData)
FM_REFUSES(cuLinkComplete)
FM_REFUSES(cuLinkCreate)
FM_REFUSES(cuLinkDestroy)
FM_REFUSES(cuStreamGetCtx)

}  // extern "C"

#include "core/late_library.h"

#include <dlfcn.h>

#include "core/check.h"

namespace fm::core {

void* late_symbol(const char* library, const char* name) {
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  FM_USER_CHECK(loaded != nullptr, "the library ", library,
                " and LibTorch behind it must be loadable; build or install fmengine again (",
                dlerror(), ")");
  void* const found = dlsym(loaded, name);
  FM_CHECK(found != nullptr, library, " holds no ", name);
  return found;
}

}  // namespace fm::core

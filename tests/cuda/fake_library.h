// The fake libcublasLt.so.13 as a test sees it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "core/check.h"
#include "tests/cuda/fake_cublaslt.h"

namespace fm::device::cuda {

// A variable of the environment, until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    was_set_ = before != nullptr;
    if (was_set_) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (was_set_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  bool was_set_ = false;
  std::string before_;
};

inline std::string fake_library_path() { return FM_FAKE_LIBRARIES "/libcublasLt.so.13"; }

template <class Function>
Function* fake_function(const char* name) {
  void* const library = dlopen(fake_library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw core::BugError(dlerror());
  return reinterpret_cast<Function*>(dlsym(library, name));
}

inline long calls_of(const char* call) {
  return fake_function<decltype(fme_fake_calls)>("fme_fake_calls")(call);
}
inline long living() { return fake_function<decltype(fme_fake_living)>("fme_fake_living")(); }
inline int last_algorithm() {
  return fake_function<decltype(fme_fake_last_algorithm)>("fme_fake_last_algorithm")();
}

// What `action` throws.
template <class Error, class Action>
std::string message_of(core::ExitCode code, const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace fm::device::cuda

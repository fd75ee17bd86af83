#include "machine/stacks.h"

#include <omp.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "core/check.h"

namespace fm::machine {
namespace {

using core::Bytes;

// A product of kernels/gemm/packed_product.cc takes 1.3 MiB of it.
constexpr Bytes kLeast(1536 * 1024);

std::string kib(Bytes bytes) { return core::concat(bytes.count() / 1024, " KiB"); }

// Of the calling thread; nothing where the system does not tell.
std::optional<Bytes> own_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return std::nullopt;
  void* lowest = nullptr;
  std::size_t size = 0;
  const bool told = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!told) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(size));
}

std::optional<Bytes> smallest_of_threads() {
  std::optional<Bytes> smallest;
#pragma omp parallel
  if (omp_get_thread_num() > 0) {
    const std::optional<Bytes> own = own_stack();
#pragma omp critical
    if (own) smallest = smallest ? std::min(*smallest, *own) : own;
  }
  return smallest;
}

// In the order in which libgomp looks.
std::string stacksize_variable() {
  for (const char* const name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) return core::concat(name, '=', value);
  }
  return "";
}

}  // namespace

Stacks stacks_here() {
  Stacks stacks{std::nullopt, smallest_of_threads(), stacksize_variable()};
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    stacks.main = Bytes(static_cast<std::int64_t>(limit.rlim_cur));
  }
  return stacks;
}

void check_stacks(const Stacks& stacks) {
  FM_USER_CHECK(!stacks.main || *stacks.main >= kLeast, "matrix products need a stack of ",
                kib(kLeast), "; raise its limit, as with `ulimit -s 8192` (the limit is ",
                kib(*stacks.main), ")");
  const std::string& variable = stacks.omp_stacksize;
  FM_USER_CHECK(!stacks.of_threads || *stacks.of_threads >= kLeast,
                "matrix products need a stack of ", kib(kLeast),
                " in every thread; set OMP_STACKSIZE=8m (OpenMP's threads have ",
                kib(*stacks.of_threads), variable.empty() ? "" : ", " + variable, ")");
}

}  // namespace fm::machine

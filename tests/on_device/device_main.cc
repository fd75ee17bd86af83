// Runs the tests of emulated kernels on a card. All that they allocate, and their stack, is pinned
// memory: to a card an address of its own.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

// Blocks are not given back: tests run for a minute. What is larger than a kernel of these tests
// reads is copied to the card instead (on_card.h), and lies in the heap.
constexpr std::size_t kPool = std::size_t{6} << 30;
constexpr std::size_t kLarge = std::size_t{32} << 20;
constexpr std::size_t kStack = std::size_t{64} << 20;
std::byte* pool = nullptr;
std::atomic<std::size_t> used{0};

void* take(std::size_t bytes) {
  if (pool == nullptr || bytes >= kLarge) return std::malloc(bytes);
  const std::size_t at = used.fetch_add((bytes + 255) / 256 * 256);
  if (at + bytes > kPool) throw std::bad_alloc();
  return pool + at;
}

bool is_pooled(const void* data) { return data >= pool && data < pool + kPool; }

int arguments;
char** words;

void* run_tests(void*) {
  testing::InitGoogleTest(&arguments, words);
  static int answer = 0;
  answer = RUN_ALL_TESTS();
  return &answer;
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void operator delete(void* data) noexcept {
  if (!is_pooled(data)) std::free(data);
}
void operator delete[](void* data) noexcept { operator delete(data); }
void operator delete(void* data, std::size_t) noexcept { operator delete(data); }
void operator delete[](void* data, std::size_t) noexcept { operator delete(data); }

int main(int count, char** given) {
  arguments = count;
  words = given;
  void* memory = nullptr;
  const cudaError_t answer = cudaHostAlloc(&memory, kPool + kStack, cudaHostAllocPortable);
  if (answer != cudaSuccess) {
    std::fprintf(stderr, "a GPU is required: %s\n", cudaGetErrorString(answer));
    return 1;
  }
  pool = static_cast<std::byte*>(memory);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, pool + kPool, kStack);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, run_tests, nullptr) != 0) return 1;
  void* result = nullptr;
  pthread_join(thread, &result);
  std::fflush(nullptr);
  std::_Exit(*static_cast<int*>(result));
}

// The twin of kernels/cuda/launch.h: the same names, for kernels whose blocks run on this CPU. One
// source, two builds.
#pragma once

#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "core/element.h"
#include "core/work.h"
#include "kernels/cuda/stream.h"
#include "tests/emulated/block.h"
#include "tests/emulated/start.h"
#include "tests/emulated/words.h"

namespace fm::kernels::cuda {

template <class T>
float widened(T value) {
  return core::to_float(value);
}
template <class T>
T narrowed(float value) {
  return core::to_element<T>(value);
}

template <class Memory>
Memory& shared_memory() {
  return *static_cast<Memory*>(emulated::shared_bytes());
}

inline void store_16(void* to, const uint4& bits) { std::memcpy(to, &bits, 16); }
inline void async_copy_16(void* shared, const void* global) {
  emulated::copy_later(shared, global, 16);
}
inline void async_copy_4(void* shared, const void* global) {
  emulated::copy_later(shared, global, 4);
}
inline void async_commit() { emulated::commit_copies(); }
template <int kPending>
void async_wait() {
  emulated::wait_copies(kPending);
}

// Two elements in a register.
struct Pair {
  std::uint16_t low, high;
};

// Matrix i comes from the addresses of lanes 8 i .. 8 i + 7.
inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  emulated::put_mail(&row, sizeof(row));
  const unsigned lane = emulated::lane();
  for (unsigned i = 0; i < 4; ++i) {
    const void* from = nullptr;
    std::memcpy(&from, emulated::mail_of(8 * i + lane / 4), sizeof(from));
    std::memcpy(&to[i], static_cast<const std::uint16_t*>(from) + lane % 4 * 2, 4);
  }
  emulated::sync_warp();
}
inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
  emulated::put_mail(&row, sizeof(row));
  const unsigned lane = emulated::lane();
  for (unsigned i = 0; i < 4; ++i) {
    std::uint16_t pair[2];
    for (unsigned j = 0; j < 2; ++j) {
      const void* from = nullptr;
      std::memcpy(&from, emulated::mail_of(8 * i + lane % 4 * 2 + j), sizeof(from));
      pair[j] = static_cast<const std::uint16_t*>(from)[lane / 4];
    }
    std::memcpy(&to[i], pair, 4);
  }
  emulated::sync_warp();
}

template <class T>
float half_of(std::uint32_t two, unsigned which) {
  return core::to_float(T{static_cast<std::uint16_t>(two >> (16 * which))});
}

// The layouts are those of kernels/cuda/launch.h.
template <class T>
void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  struct {
    std::uint32_t a[4], b[2];
  } mine, other;
  std::memcpy(mine.a, a, sizeof(mine.a));
  std::memcpy(mine.b, b, sizeof(mine.b));
  emulated::put_mail(&mine, sizeof(mine));
  const unsigned group = emulated::lane() / 4;
  const unsigned column = emulated::lane() % 4 * 2;
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned within = k % 8 / 2;
    std::memcpy(&other, emulated::mail_of(group * 4 + within), sizeof(other));
    const float upper = half_of<T>(other.a[k / 8 * 2], k % 2);
    const float lower = half_of<T>(other.a[k / 8 * 2 + 1], k % 2);
    for (unsigned j = 0; j < 2; ++j) {
      std::memcpy(&other, emulated::mail_of((column + j) * 4 + within), sizeof(other));
      const float right = half_of<T>(other.b[k / 8], k % 2);
      c[j] += upper * right;
      c[2 + j] += lower * right;
    }
  }
}

inline Workspace workspace(const core::Work& work) { return emulated::workspace(work); }
inline int multiprocessors(const core::Work& work) { return emulated::multiprocessors(work); }

struct Launch {
  dim3 grid = {1, 1, 1};
  dim3 block = {256, 1, 1};
  std::size_t shared = 0;
};

// At once where the Work has no queue, else on the queue of a fake device.
template <class... Parameters, class... Arguments>
void launch(const core::Work& work, const char*, const Launch& how, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  emulated::start(work, {how.grid, how.block, how.shared}, kernel,
                  std::tuple<std::decay_t<Parameters>...>(arguments...));
}

}  // namespace fm::kernels::cuda

// How the kernels of this folder are started and what they use of CUDA. tests/emulated has its
// twin, which runs the threads of a block on this CPU in turn.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "core/element.h"
#include "core/work.h"
#include "kernels/cuda/stream.h"

namespace fm::kernels::cuda {

// Conversions, one instruction each. A NaN stays one, its bits do not.
__device__ __forceinline__ float widened(float value) { return value; }
__device__ __forceinline__ float widened(core::Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ __forceinline__ float widened(core::F16 value) {
  return __half2float(__ushort_as_half(value.bits));
}
template <class T>
__device__ __forceinline__ T narrowed(float value);
template <>
__device__ __forceinline__ float narrowed<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ core::Bf16 narrowed<core::Bf16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
template <>
__device__ __forceinline__ core::F16 narrowed<core::F16>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}

// 2^x with an error of a few units; what is below the normal numbers is 0.
__device__ __forceinline__ float exp2f_fast(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// The dynamic shared memory of the block, of which a kernel has one use: `Memory` is an aggregate
// of arrays, and is not cleared.
template <class Memory>
__device__ __forceinline__ Memory& shared_memory() {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  return *reinterpret_cast<Memory*>(shared_bytes);
}

// 16 bytes to global or shared memory. Of packs in arrays, an assignment of a uint4 becomes four
// stores.
__device__ __forceinline__ void store_16(void* to, const uint4& bits) {
  asm volatile("st.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z),
               "r"(bits.w)
               : "memory");
}

// 16 bytes from global to shared memory, beside what the thread does; both are aligned. They are
// there after async_wait for their group, and a barrier.
__device__ __forceinline__ void async_copy_16(void* shared, const void* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global));
}
// 4 bytes; these pass through the L1 cache.
__device__ __forceinline__ void async_copy_4(void* shared, const void* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(global));
}
__device__ __forceinline__ void async_commit() { asm volatile("cp.async.commit_group;"); }
// Until at most kPending of the thread's groups are under way.
template <int kPending>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

// Four 8 x 8 matrices of 16-bit elements from shared memory into the layout of `mma`: lane l gives
// the address of row l % 8 of matrix l / 8, 16 bytes.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}
// Each of them transposed.
__device__ __forceinline__ void load_transposed(std::uint32_t (&to)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}

// c [16, 8] += a [16, 16] b [16, 8] of a warp: PTX's mma.m16n8k16 with fp32 sums. With g = lane / 4
// and i = lane % 4: a holds rows g, g + 8, g, g + 8 at columns 2 i, 2 i, 2 i + 8, 2 i + 8 (pairs),
// b rows 2 i and 2 i + 8 (pairs) of column g, c rows g, g, g + 8, g + 8 at columns 2 i, 2 i + 1 of
// both.
template <class T>
__device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]);
template <>
__device__ __forceinline__ void mma<core::Bf16>(float (&c)[4], const std::uint32_t (&a)[4],
                                                const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void mma<core::F16>(float (&c)[4], const std::uint32_t (&a)[4],
                                               const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

inline const Stream& stream_of(const core::Work& work) {
  return dynamic_cast<const Stream&>(*work.queue);
}
// Of the queue; the next kernel that asks for it writes over what is in it.
inline Workspace workspace(const core::Work& work) { return stream_of(work).workspace(); }
inline int multiprocessors(const core::Work& work) { return stream_of(work).multiprocessors(); }

struct Launch {
  dim3 grid = {1, 1, 1};
  dim3 block = {256, 1, 1};
  std::size_t shared = 0;  // bytes that shared_memory() has
};

// Queues kernel(arguments...); they are copied. `name`: for errors.
template <class... Parameters, class... Arguments>
void launch(const core::Work& work, const char* name, const Launch& how,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (how.shared > kWithoutAsking) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(how.shared));
  }
  const Stream& stream = stream_of(work);
  kernel<<<how.grid, how.block, how.shared, static_cast<cudaStream_t>(stream.handle())>>>(
      static_cast<Parameters>(arguments)...);
  stream.check_start(name);
}

}  // namespace fm::kernels::cuda

#include "kernels/attention/attention_cached.h"

#include <omp.h>

#include <algorithm>

#include "core/element.h"
#include "core/trace.h"
#include "kernels/attention/cached.h"
#include "kernels/attention/here.h"

namespace fm::kernels {
namespace {

constexpr core::TraceForm kForm = {
    "attention_cached", core::TraceKind::kKernel, {"tokens", "keys", "heads"}};

// Below this number of multiply-adds a second thread costs more than it saves.
constexpr std::int64_t kWorthThreads = 1 << 15;

CachedKeys keys_of(const CachedShape& shape, std::int64_t keys) {
  return {.keys = keys,
          .heads = shape.heads / shape.kv_heads,
          .head_dim = shape.head_dim,
          .stride = shape.kv_heads * shape.head_dim,
          .scale = shape.scale,
          .softcap = shape.softcap};
}

// fp32 elements, a whole number of cache lines.
std::int64_t scratch_each(const CachedShape& shape, std::int64_t positions) {
  return core::Arena::aligned<float>(keys_of(shape, positions).scratch()).count() /
         static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

core::Bytes cached_scratch(const CachedShape& shape, std::int64_t positions, int threads) {
  return core::Arena::aligned<float>(scratch_each(shape, positions) * threads);
}

template <class T>
void attention_cached_here(core::Work& work, const CachedShape& shape,
                           const CachedSequence& sequence, const T* q_THd, T* out_THd) {
  const std::int64_t positions = sequence.position + sequence.count;
  const core::TraceScope trace(kForm, {sequence.count, positions, shape.heads});
  const core::Arena::Scope scope(work.arena);
  const std::int64_t products = sequence.count * positions * shape.heads * shape.head_dim;
  const int threads = products < kWorthThreads ? 1 : work.threads;
  const std::int64_t apart = scratch_each(shape, positions);
  float* const scratch = work.arena.template take<float>(apart * threads);
  const std::int64_t width = shape.kv_heads * shape.head_dim;
  const std::int64_t group = shape.heads / shape.kv_heads * shape.head_dim;
  const T* const keys = static_cast<const T*>(sequence.cache);
  const std::int64_t tasks = sequence.count * shape.kv_heads;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t task = 0; task < tasks; ++task) {
    const std::int64_t seen = sequence.position + task / shape.kv_heads + 1;
    const std::int64_t first =
        shape.window > 0 ? std::max(seen - shape.window, std::int64_t{0}) : 0;
    const T* const k = keys + first * width + task % shape.kv_heads * shape.head_dim;
    attend_cached<T>(keys_of(shape, seen - first),
                     {.q = q_THd + task * group,
                      .k = k,
                      .v = k + sequence.capacity * width,
                      .out = out_THd + task * group},
                     scratch + omp_get_thread_num() * apart);
  }
}

template void attention_cached_here(core::Work&, const CachedShape&, const CachedSequence&,
                                    const float*, float*);
template void attention_cached_here(core::Work&, const CachedShape&, const CachedSequence&,
                                    const core::Bf16*, core::Bf16*);
template void attention_cached_here(core::Work&, const CachedShape&, const CachedSequence&,
                                    const core::F16*, core::F16*);

}  // namespace fm::kernels

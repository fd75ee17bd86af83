// Decoding: attention with a cache. The rest of a block is the same as in forward
// (model/units/block.cc).
#include "core/check.h"
#include "core/element.h"
#include "model/units/block.h"
#include "model/units/block_memory.h"

namespace fm::model {

template <class T>
CachedShape Block<T>::cached_shape() const {
  return {.heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .window = window_};
}

template <class T>
UnitSizes Block<T>::decode_sizes(std::int64_t tokens, std::int64_t positions, int threads) const {
  UnitSizes all = sizes({.batch = 1, .seq_len = tokens}, threads);
  all.scratch += cached_scratch(cached_shape(), positions, threads);
  return all;
}

template <class T>
void Block<T>::attend_cached(const Pass& pass) const {
  const Kept& kept = pass.kept;
  const std::int64_t Q = config_.q_width();
  const std::int64_t K = config_.kv_width();
  std::int64_t row = 0;
  for (const CachedSequence& each : pass.sequences) {
    FM_CHECK(each.cache != nullptr && each.position + each.count <= each.capacity, each.count,
             " tokens behind ", each.position, " do not fit a cache of ", each.capacity);
    FM_CHECK(each.count > 0 && row + each.count <= pass.tokens(), "sequences with ",
             row + each.count, " tokens share a call of ", pass.tokens());
    T* const q_THd = kept.q_BTHd + row * Q;
    T* const k_TKd = kept.k_BTKd + row * K;
    const T* const v_TKd = kept.v_BTKd + row * K;
    const core::BatchShape shape{.batch = 1, .seq_len = each.count};
    if (config_.rope.type != RopeConfig::Type::kNone) {
      kernels::RopeTable table = rope_->get(each.position + each.count);
      table.cos += each.position * table.half_dim;
      table.sin += each.position * table.half_dim;
      kernels::rope(table, shape, config_.heads, q_THd);
      kernels::rope(table, shape, config_.kv_heads, k_TKd);
    }
    T* const keys = static_cast<T*>(each.cache) + each.position * K;
    kernels::copy(pass.work, each.count * K, k_TKd, keys);
    kernels::copy(pass.work, each.count * K, v_TKd, keys + each.capacity * K);
    T* const out_THd = kept.attended_BTHd + row * Q;
    if (each.position == 0 && each.count > 1) {  // a whole row, as in training
      attention_forward<T>(attention_of({.shape = shape}),
                           {.q = q_THd,
                            .k = k_TKd,
                            .v = v_TKd,
                            .out = out_THd,
                            .logsumexp = kept.logsumexp + row * config_.heads},
                           pass.work);
    } else {
      attention_cached<T>(cached_shape(), each, q_THd, out_THd, pass.work);
    }
    row += each.count;
  }
}

template CachedShape Block<float>::cached_shape() const;
template CachedShape Block<core::Bf16>::cached_shape() const;
template CachedShape Block<core::F16>::cached_shape() const;
template UnitSizes Block<float>::decode_sizes(std::int64_t, std::int64_t, int) const;
template UnitSizes Block<core::Bf16>::decode_sizes(std::int64_t, std::int64_t, int) const;
template UnitSizes Block<core::F16>::decode_sizes(std::int64_t, std::int64_t, int) const;
template void Block<float>::attend_cached(const Pass&) const;
template void Block<core::Bf16>::attend_cached(const Pass&) const;
template void Block<core::F16>::attend_cached(const Pass&) const;

}  // namespace fm::model

#include "tests/model/torch_attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>
#include <c10/core/InferenceMode.h>

namespace fm::model {
namespace {

// LibTorch sets the thread count of a thread that it meets for the first time to its own default.
void agree_on_threads(int threads) {
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

// Views of one batch row, shaped as the kernel wants them: "batch" is the kv head and "heads" are
// the query heads of its group, so that keys and values are shared through a stride of 0.
class RowViews {
 public:
  RowViews(const kernels::AttentionShape& shape, std::int64_t row)
      : row_(row),
        seq_len_(shape.batch.seq_len),
        kv_heads_(shape.kv_heads),
        group_(shape.heads / shape.kv_heads),
        head_dim_(shape.head_dim) {}

  // [kv_heads, group, T, head_dim] of an array [B, T, heads, head_dim]
  at::Tensor queries(const float* base) const {
    const std::int64_t width = kv_heads_ * group_ * head_dim_;
    return view(base + row_ * seq_len_ * width, {kv_heads_, group_, seq_len_, head_dim_},
                {group_ * head_dim_, head_dim_, width, 1});
  }
  // The same shape of an array [B, T, kv_heads, head_dim], every group member the same memory.
  at::Tensor shared_keys(const float* base) const {
    const std::int64_t width = kv_heads_ * head_dim_;
    return view(base + row_ * seq_len_ * width, {kv_heads_, group_, seq_len_, head_dim_},
                {head_dim_, 0, width, 1});
  }
  // [kv_heads, T, head_dim] of an array [B, T, kv_heads, head_dim]
  at::Tensor keys(const float* base) const {
    const std::int64_t width = kv_heads_ * head_dim_;
    return view(base + row_ * seq_len_ * width, {kv_heads_, seq_len_, head_dim_},
                {head_dim_, width, 1});
  }
  // [kv_heads, group, T], stored [kv_heads, T, group] as the forward kernel returns it
  at::Tensor logsumexp(const float* base) const {
    return view(base + row_ * seq_len_ * kv_heads_ * group_, {kv_heads_, group_, seq_len_},
                {seq_len_ * group_, 1, group_});
  }

 private:
  static at::Tensor view(const float* data, at::IntArrayRef sizes, at::IntArrayRef strides) {
    return at::from_blob(const_cast<float*>(data), sizes, strides, at::kFloat);
  }

  std::int64_t row_;
  std::int64_t seq_len_;
  std::int64_t kv_heads_;
  std::int64_t group_;
  std::int64_t head_dim_;
};

void forward(const kernels::AttentionShape& shape, const kernels::AttentionForward<float>& at,
             int threads) {
  agree_on_threads(threads);
  const c10::InferenceMode no_autograd;
  for (std::int64_t row = 0; row < shape.batch.batch; ++row) {
    const RowViews views(shape, row);
    const auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
        views.queries(at.q), views.shared_keys(at.k), views.shared_keys(at.v), 0.0, true);
    views.queries(at.out).copy_(out);
    views.logsumexp(at.logsumexp).copy_(logsumexp);
  }
}

void backward(const kernels::AttentionShape& shape, const kernels::AttentionBackward<float>& at,
              int threads) {
  agree_on_threads(threads);
  const c10::InferenceMode no_autograd;
  for (std::int64_t row = 0; row < shape.batch.batch; ++row) {
    const RowViews views(shape, row);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        views.queries(at.dout), views.queries(at.q), views.shared_keys(at.k),
        views.shared_keys(at.v), views.queries(at.out), views.logsumexp(at.logsumexp), 0.0, true);
    views.queries(at.dq).copy_(dq);
    // One gradient per query head: the group's sum is the gradient of the shared head.
    at::Tensor dk_row = views.keys(at.dk);
    at::Tensor dv_row = views.keys(at.dv);
    at::sum_out(dk_row, dk, {1});
    at::sum_out(dv_row, dv, {1});
  }
}

constexpr TorchAttention kAttention = {forward, backward};

}  // namespace

// What torch_attention() looks for.
extern "C" const TorchAttention* fm_torch_attention() { return &kAttention; }

}  // namespace fm::model

#include "tests/model/llama_twin.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <map>

namespace fm::model {
namespace {

at::Tensor ids(const std::int32_t* data, core::BatchShape shape) {
  return at::from_blob(const_cast<std::int32_t*>(data), {shape.batch, shape.seq_len}, at::kInt)
      .to(at::kLong);
}

}  // namespace

at::Tensor tensor_of(const float* data, std::vector<std::int64_t> shape) {
  return at::from_blob(const_cast<float*>(data), shape, at::kFloat).to(at::kDouble);
}

double difference(const at::Tensor& expected, const float* got) {
  const at::Tensor mine = tensor_of(got, expected.sizes().vec());
  const double largest = expected.abs().max().item<double>();
  const double gap = (expected - mine).abs().max().item<double>();
  return largest == 0.0 ? gap : gap / largest;
}

struct LlamaTwin::Leaves {
  std::map<std::string, at::Tensor> by_name;
  const at::Tensor& at(const std::string& name) const { return by_name.at(name); }
};

LlamaTwin::LlamaTwin(const LlamaConfig& config, std::vector<float> inv_freq)
    : config_(config), inv_freq_(std::move(inv_freq)), leaves_(std::make_unique<Leaves>()) {}

LlamaTwin::LlamaTwin(LlamaTwin&&) noexcept = default;
LlamaTwin::~LlamaTwin() = default;

at::Tensor LlamaTwin::gradient(const std::string& name) const { return leaves_->at(name).grad(); }

void LlamaTwin::add_leaves(const core::ParamTable& table, const float* flat) {
  for (const core::ParamEntry& entry : table.entries()) {
    at::Tensor leaf = tensor_of(flat + entry.offset.count(), entry.shape);
    leaves_->by_name[entry.name] = leaf.set_requires_grad(true);
  }
}

at::Tensor LlamaTwin::norm(const at::Tensor& x, const std::string& name) const {
  const at::Tensor variance = x.pow(2).mean(-1, true);
  return leaves_->at(name + ".weight") * x * (variance + config_.rms_norm_eps).rsqrt();
}

at::Tensor LlamaTwin::linear(const at::Tensor& x, const std::string& name) const {
  return at::matmul(x, leaves_->at(name + ".weight").t());
}

at::Tensor LlamaTwin::rotate(const at::Tensor& x_BHTd) const {
  const std::int64_t half = x_BHTd.size(3) / 2;
  const at::Tensor positions = at::arange(x_BHTd.size(2), at::kDouble).unsqueeze(1);
  // The angle is a product of fp32 numbers rounded to fp32, as in transformers.
  const at::Tensor angle =
      (positions * tensor_of(inv_freq_.data(), {half})).to(at::kFloat).to(at::kDouble);
  const at::Tensor cos = at::cat({angle, angle}, 1).cos();
  const at::Tensor sin = at::cat({angle, angle}, 1).sin();
  const at::Tensor turned = at::cat({-x_BHTd.slice(3, half), x_BHTd.slice(3, 0, half)}, 3);
  return x_BHTd * cos + turned * sin;
}

at::Tensor LlamaTwin::embed(const UnitInput& input) const {
  return leaves_->at("model.embed_tokens.weight")
      .index_select(0, ids(input.tokens_BT, input.shape).flatten())
      .view({input.shape.batch, input.shape.seq_len, config_.hidden});
}

at::Tensor LlamaTwin::block(std::int64_t layer, const at::Tensor& x_BTD) const {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const std::int64_t B = x_BTD.size(0);
  const std::int64_t T = x_BTD.size(1);
  const at::Tensor normed = norm(x_BTD, prefix + "input_layernorm");
  const auto heads_of = [&](const char* name, std::int64_t heads) {
    return linear(normed, prefix + "self_attn." + name)
        .view({B, T, heads, config_.head_dim})
        .transpose(1, 2);
  };
  const std::int64_t group = config_.heads / config_.kv_heads;
  const at::Tensor q = rotate(heads_of("q_proj", config_.heads));
  const at::Tensor k = rotate(heads_of("k_proj", config_.kv_heads)).repeat_interleave(group, 1);
  const at::Tensor v = heads_of("v_proj", config_.kv_heads).repeat_interleave(group, 1);
  const at::Tensor future = at::ones({T, T}, at::kBool).triu(1);
  const at::Tensor scores =
      at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(config_.head_dim));
  const at::Tensor weights =
      scores.masked_fill(future, -std::numeric_limits<double>::infinity()).softmax(-1);
  const at::Tensor attended = at::matmul(weights, v).transpose(1, 2).reshape({B, T, -1});
  const at::Tensor middle = x_BTD + linear(attended, prefix + "self_attn.o_proj");
  const at::Tensor normed2 = norm(middle, prefix + "post_attention_layernorm");
  const at::Tensor product =
      at::silu(linear(normed2, prefix + "mlp.gate_proj")) * linear(normed2, prefix + "mlp.up_proj");
  return middle + linear(product, prefix + "mlp.down_proj");
}

at::Tensor LlamaTwin::logits(const at::Tensor& x_BTD) const {
  return linear(norm(x_BTD, "model.norm"), config_.tied ? "model.embed_tokens" : "lm_head");
}

at::Tensor LlamaTwin::loss_sum(const UnitInput& input, const at::Tensor& x_BTD) const {
  const at::Tensor labels = ids(input.labels_BT, input.shape).flatten();
  const at::Tensor log_p = logits(x_BTD).view({-1, config_.vocab}).log_softmax(-1);
  const at::Tensor counted = labels != -100;
  const at::Tensor picked = log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return -(picked * counted).sum();
}

}  // namespace fm::model

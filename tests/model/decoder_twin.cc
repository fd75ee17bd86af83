#include "tests/model/decoder_twin.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/philox.h"
#include "model/attention/rope_frequencies.h"
#include "tests/kernels/dropout_mask.h"

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

struct DecoderTwin::Leaves {
  std::map<std::string, at::Tensor> by_name;
  const at::Tensor& at(const std::string& name) const { return by_name.at(name); }
  bool has(const std::string& name) const { return by_name.contains(name); }
};

struct DecoderTwin::Heads {
  at::Tensor q, k, v;
};

DecoderTwin::DecoderTwin(const DecoderConfig& config, std::int64_t row)
    : config_(config), row_(row), leaves_(std::make_unique<Leaves>()) {}

DecoderTwin::DecoderTwin(DecoderTwin&&) noexcept = default;
DecoderTwin::~DecoderTwin() = default;

at::Tensor DecoderTwin::gradient(const std::string& name) const { return leaves_->at(name).grad(); }

void DecoderTwin::add_leaves(const core::ParamTable& table, const float* flat) {
  for (const core::ParamEntry& entry : table.entries()) {
    at::Tensor leaf = tensor_of(flat + entry.offset.count(), entry.shape);
    leaves_->by_name[entry.name] = leaf.set_requires_grad(true);
  }
}

at::Tensor DecoderTwin::dropped(const at::Tensor& x, double probability, std::int64_t where,
                                std::int64_t stride) const {
  if (!step_ || probability == 0.0) return x;
  const core::PhiloxBlock key = core::philox(step_->seed, static_cast<std::uint64_t>(step_->step),
                                             static_cast<std::uint64_t>(where));
  const kernels::Dropout by{.key = key[0] | std::uint64_t{key[1]} << 32,
                            .dropped = static_cast<std::uint32_t>(probability * 0x1p32 + 0.5)};
  at::Tensor mask = at::zeros_like(x);
  const std::int64_t width = x.size(-1);
  const std::int64_t rows = x.numel() / width;
  const std::int64_t first = step_->first_sample * (rows / x.size(0));
  auto* const stays = mask.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t number = (first + i / width) * stride + i % width;
    if (kernels::stays_in(by, static_cast<std::uint64_t>(number))) {
      stays[i] = 1.0 / (1.0 - probability);
    }
  }
  return x * mask;
}

at::Tensor DecoderTwin::norm(const at::Tensor& x, const std::string& name) const {
  const at::Tensor& weight = leaves_->at(name + ".weight");
  if (centers(config_.block.norm)) {
    const at::Tensor centered = x - x.mean(-1, true);
    const at::Tensor variance = centered.pow(2).mean(-1, true);
    const at::Tensor y = centered * (variance + config_.norm_eps).rsqrt() * weight;
    return leaves_->has(name + ".bias") ? y + leaves_->at(name + ".bias") : y;
  }
  const at::Tensor normed = x * (x.pow(2).mean(-1, true) + config_.norm_eps).rsqrt();
  return config_.block.norm == NormKind::kRmsOnePlus ? normed * (1.0 + weight) : normed * weight;
}

at::Tensor DecoderTwin::linear(const at::Tensor& x, const std::string& name) const {
  const at::Tensor& weight = leaves_->at(name + ".weight");
  const bool usual = config_.block.form == MatrixForm::kOutIn;
  at::Tensor y = at::matmul(x, usual ? weight.t() : weight);
  if (leaves_->has(name + ".bias")) y = y + leaves_->at(name + ".bias");
  const std::string adapter = "base_model.model." + name + ".lora_";
  if (!leaves_->has(adapter + "A.weight")) return y;
  const at::Tensor low = at::matmul(x, leaves_->at(adapter + "A.weight").t());
  return y + lora_scale_ * at::matmul(low, leaves_->at(adapter + "B.weight").t());
}

at::Tensor DecoderTwin::rotate(std::int64_t layer, const at::Tensor& x_BHTd) const {
  const LayerRope which = config_.rope_of(layer);
  const RopeConfig& rope = which == LayerRope::kLocal ? config_.local_rope : config_.rope;
  if (which == LayerRope::kNone || rope.type == RopeConfig::Type::kNone) return x_BHTd;
  const std::vector<float> inv_freq = rope_frequencies(rope, config_.head_dim, row_);
  const auto half = static_cast<std::int64_t>(inv_freq.size());
  const at::Tensor positions = at::arange(x_BHTd.size(2), at::kDouble).unsqueeze(1);
  // The angle is a product of fp32 numbers rounded to fp32, as in transformers.
  const at::Tensor angle =
      (positions * tensor_of(inv_freq.data(), {half})).to(at::kFloat).to(at::kDouble);
  const at::Tensor cos = angle.cos() * rope.attention_factor;
  const at::Tensor sin = angle.sin() * rope.attention_factor;
  const at::Tensor turning = x_BHTd.slice(3, 0, 2 * half);
  const at::Tensor rest = x_BHTd.slice(3, 2 * half);
  if (rope.pairs == RopeConfig::Pairs::kNeighbours) {
    const at::Tensor pairs = turning.unflatten(3, {half, 2});
    const at::Tensor x = pairs.select(4, 0);
    const at::Tensor y = pairs.select(4, 1);
    const at::Tensor turned = at::stack({x * cos - y * sin, y * cos + x * sin}, 4).flatten(3);
    return at::cat({turned, rest}, 3);
  }
  const at::Tensor x = turning.slice(3, 0, half);
  const at::Tensor y = turning.slice(3, half);
  return at::cat({x * cos - y * sin, y * cos + x * sin, rest}, 3);
}

at::Tensor DecoderTwin::scale_queries(const at::Tensor& q_BHTd) const {
  const RopeConfig& rope = config_.rope;
  if (rope.query_beta == 0.0) return q_BHTd;
  const at::Tensor positions = at::arange(q_BHTd.size(2), at::kDouble).unsqueeze(1);
  const auto original = static_cast<double>(rope.original_max_position_embeddings);
  return q_BHTd * (1.0 + rope.query_beta * (1.0 + (positions / original).floor()).log());
}

at::Tensor DecoderTwin::capped(const at::Tensor& x, double cap) const {
  return cap == 0.0 ? x : cap * (x / cap).tanh();
}

at::Tensor DecoderTwin::embed(const UnitInput& input) const {
  const ModuleNames& names = config_.names;
  at::Tensor x = leaves_->at(names.base + names.embedding + ".weight")
                     .index_select(0, ids(input.tokens_BT, input.shape).flatten())
                     .view({input.shape.batch, input.shape.seq_len, config_.hidden}) *
                 config_.embedding_scale;
  if (!names.positions.empty()) {
    x = x + leaves_->at(names.base + names.positions + ".weight").slice(0, 0, x.size(1));
  }
  return dropped(x, config_.dropout.embedding, 0, config_.hidden);
}

DecoderTwin::Heads DecoderTwin::heads(std::int64_t layer, const at::Tensor& x) const {
  const std::string prefix = prefix_of(layer);
  const ModuleNames& names = config_.names;
  const std::int64_t B = x.size(0);
  const std::int64_t T = x.size(1);
  const std::int64_t d = config_.head_dim;
  const auto split = [&](const at::Tensor& y) { return y.reshape({B, T, -1, d}).transpose(1, 2); };
  at::Tensor q, k, v;
  switch (config_.block.qkv) {
    case QkvMatrix::kThree:
      q = linear(x, prefix + names.q);
      k = linear(x, prefix + names.k);
      v = linear(x, prefix + names.v);
      break;
    case QkvMatrix::kStacked: {
      const at::Tensor all = linear(x, prefix + names.q);
      q = all.slice(2, 0, config_.q_width());
      k = all.slice(2, config_.q_width(), config_.q_width() + config_.kv_width());
      v = all.slice(2, config_.q_width() + config_.kv_width());
      break;
    }
    case QkvMatrix::kPerHead: {
      const std::int64_t group = config_.heads / config_.kv_heads;
      const at::Tensor all =
          linear(x, prefix + names.q).reshape({B, T, config_.kv_heads, group + 2, d});
      q = all.slice(3, 0, group).flatten(2);
      k = all.select(3, group).flatten(2);
      v = all.select(3, group + 1).flatten(2);
      break;
    }
  }
  Heads out = {split(q), split(k), split(v)};
  switch (config_.block.qk_norm) {
    case QkNorm::kNone: break;
    case QkNorm::kAllHeads:
      out.q = split(norm(q, prefix + names.q_norm));
      out.k = split(norm(k, prefix + names.k_norm));
      break;
    case QkNorm::kPerHead:
      out.q = norm(out.q, prefix + names.q_norm);
      out.k = norm(out.k, prefix + names.k_norm);
      break;
  }
  out.q = scale_queries(rotate(layer, out.q));
  out.k = rotate(layer, out.k);
  return out;
}

at::Tensor DecoderTwin::attention(std::int64_t layer, const at::Tensor& x) const {
  const std::string prefix = prefix_of(layer);
  const std::int64_t B = x.size(0);
  const std::int64_t T = x.size(1);
  const std::int64_t group = config_.heads / config_.kv_heads;
  const Heads at = heads(layer, x);
  at::Tensor hidden = at::ones({T, T}, at::kBool).triu(1);
  const std::int64_t window =
      config_.windows.empty() ? 0 : config_.windows[static_cast<std::size_t>(layer)];
  if (window > 0) hidden = hidden.logical_or(at::ones({T, T}, at::kBool).tril(-window));
  const double scale = config_.attention_scale > 0.0
                           ? config_.attention_scale
                           : 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  const at::Tensor scores =
      capped(at::matmul(at.q, at.k.repeat_interleave(group, 1).transpose(2, 3)) * scale,
             config_.attention_softcap);
  const at::Tensor weights =
      scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()).softmax(-1);
  const at::Tensor seen =
      dropped(weights, config_.dropout.attention, 4 * layer + 1, (T + 63) / 64 * 64);
  const at::Tensor attended = at::matmul(seen, at.v.repeat_interleave(group, 1));
  return linear(attended.transpose(1, 2).reshape({B, T, -1}), prefix + config_.names.out);
}

at::Tensor DecoderTwin::activate(const at::Tensor& x) const {
  switch (config_.block.activation) {
    case kernels::Activation::kSilu: return at::silu(x);
    case kernels::Activation::kGelu: return at::gelu(x);
    case kernels::Activation::kGeluTanh: return at::gelu(x, "tanh");
    case kernels::Activation::kRelu: return at::relu(x);
  }
  return {};
}

at::Tensor DecoderTwin::mlp(const std::string& prefix, const at::Tensor& x) const {
  const ModuleNames& names = config_.names;
  at::Tensor product;
  if (config_.block.gate_up_stacked) {
    const at::Tensor both = linear(x, prefix + names.gate);
    product = activate(both.slice(2, 0, config_.ffn)) * both.slice(2, config_.ffn);
  } else if (config_.block.gated) {
    product = activate(linear(x, prefix + names.gate)) * linear(x, prefix + names.up);
  } else {
    product = activate(linear(x, prefix + names.up));
  }
  return linear(product, prefix + names.down);
}

std::string DecoderTwin::prefix_of(std::int64_t layer) const {
  return config_.names.base + config_.names.layers + "." + std::to_string(layer) + ".";
}

at::Tensor DecoderTwin::block(std::int64_t layer, const at::Tensor& x) const {
  const std::string prefix = prefix_of(layer);
  const ModuleNames& names = config_.names;
  const NormPlace place = config_.block.norm_place;
  const auto before = [&](const at::Tensor& y, const std::string& name) {
    return place == NormPlace::kAfter ? y : norm(y, prefix + name);
  };
  const auto added = [&](const at::Tensor& y, const std::string& name, std::int64_t where) {
    const at::Tensor normed = place == NormPlace::kBefore ? y : norm(y, prefix + name);
    return dropped(normed * config_.residual_scale, config_.dropout.residual, 4 * layer + where,
                   config_.hidden);
  };
  const at::Tensor normed = before(x, names.norm1);
  const at::Tensor attended = added(attention(layer, normed), names.norm1_after, 2);
  switch (config_.block.residual) {
    case Residual::kParallel:
      return x + attended + added(mlp(prefix, before(x, names.norm2)), names.norm2_after, 3);
    case Residual::kParallelOneNorm:
      return x + attended + added(mlp(prefix, normed), names.norm2_after, 3);
    case Residual::kSequential: break;
  }
  const at::Tensor middle = x + attended;
  return middle + added(mlp(prefix, before(middle, names.norm2)), names.norm2_after, 3);
}

at::Tensor DecoderTwin::logits(const at::Tensor& x_BTD) const {
  const ModuleNames& names = config_.names;
  const std::string matrix = config_.tied ? names.base + names.embedding : names.head;
  const at::Tensor y =
      at::matmul(norm(x_BTD, names.base + names.final_norm), leaves_->at(matrix + ".weight").t());
  const at::Tensor biased = config_.head_bias ? y + leaves_->at(names.head + ".bias") : y;
  return capped(biased * config_.logits_scale, config_.logits_softcap);
}

at::Tensor DecoderTwin::loss_sum(const UnitInput& input, const at::Tensor& x_BTD) const {
  const at::Tensor labels = ids(input.labels_BT, input.shape).flatten();
  const at::Tensor log_p = logits(x_BTD).view({-1, config_.vocab}).log_softmax(-1);
  const at::Tensor counted = labels != -100;
  const at::Tensor picked = log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return -(picked * counted).sum();
}

}  // namespace fm::model

// Attention and its gradients by the formula in fp64.
#pragma once

#include "tests/emulated/attention_case.h"

namespace fm::emulated {

struct Expected {
  Doubles out, logsumexp, dq, dk, dv;
};

// The formula, query by query.
template <class T>
class Formula {
 public:
  explicit Formula(const Inputs<T>& inputs)
      : shape_(inputs.shape),
        keys_(inputs.keys),
        q_(to_doubles(inputs.q)),
        k_(to_doubles(inputs.k)),
        v_(to_doubles(inputs.v)),
        dout_(to_doubles(inputs.dout)),
        to_{Doubles(q_.size()), Doubles(index(shape_.batch.tokens() * shape_.heads)),
            Doubles(q_.size()), Doubles(k_.size()), Doubles(k_.size())} {
    for (std::int64_t row = 0; row < shape_.batch.batch; ++row) {
      for (std::int64_t head = 0; head < shape_.heads; ++head) {
        for (std::int64_t t = 0; t < shape_.batch.seq_len; ++t) attend(row, head, t);
      }
    }
  }
  const Expected& results() const { return to_; }

 private:
  bool sees(std::int64_t row, std::int64_t t, std::int64_t j) const {
    const std::int64_t query = shape_.runs.first_query + t;  // in the whole row
    const std::int64_t key = shape_.runs.first_key + j;
    if (shape_.runs.keys == 0 && j > t) return false;
    if (shape_.window > 0 && key + shape_.window <= query) return false;
    return shape_.starts_BT == nullptr || key >= shape_.starts_BT[row * shape_.batch.seq_len + t];
  }
  double kept(std::int64_t row, std::int64_t head, std::int64_t t, std::int64_t j) const {
    if (shape_.dropout.dropped == 0) return 1.0;
    const std::int64_t length = shape_.runs.row > 0 ? shape_.runs.row : shape_.batch.seq_len;
    const std::int64_t width = (length + 63) / 64 * 64;
    const std::int64_t all = shape_.all_heads > 0 ? shape_.all_heads : shape_.heads;
    const std::int64_t step_head = (shape_.first_sample + row) * all + shape_.first_head + head;
    const std::int64_t number =
        (step_head * length + shape_.runs.first_query + t) * width + shape_.runs.first_key + j;
    const bool stays = kernels::stays_in(shape_.dropout, static_cast<std::uint64_t>(number));
    return stays ? static_cast<double>(shape_.dropout.scale) : 0.0;
  }
  double dot(const Doubles& a, std::int64_t at, const Doubles& b, std::int64_t other) const {
    double sum = 0.0;
    for (std::int64_t i = 0; i < shape_.head_dim; ++i)
      sum += a[index(at + i)] * b[index(other + i)];
    return sum;
  }
  std::int64_t key_at(std::int64_t row, std::int64_t head, std::int64_t j) const {
    const std::int64_t kv_head = head / (shape_.heads / shape_.kv_heads);
    return ((row * keys_ + j) * shape_.kv_heads + kv_head) * shape_.head_dim;
  }

  void attend(std::int64_t row, std::int64_t head, std::int64_t t) {
    const std::int64_t tokens = shape_.batch.seq_len;
    const std::int64_t at = ((row * tokens + t) * shape_.heads + head) * shape_.head_dim;
    const double scale = shape_.scale > 0.0F
                             ? static_cast<double>(shape_.scale)
                             : 1.0 / std::sqrt(static_cast<double>(shape_.head_dim));
    const auto cap = static_cast<double>(shape_.softcap);
    Doubles probs(index(keys_));
    Doubles slopes(index(keys_), 1.0);
    double total = 0.0;
    for (std::int64_t j = 0; j < keys_; ++j) {
      if (!sees(row, t, j)) continue;
      double score = scale * dot(q_, at, k_, key_at(row, head, j));
      if (cap > 0.0) {
        const double share = std::tanh(score / cap);
        score = cap * share;
        slopes[index(j)] = 1.0 - share * share;
      }
      probs[index(j)] = std::exp(score);
      total += probs[index(j)];
    }
    to_.logsumexp[index((row * shape_.heads + head) * tokens + t)] = std::log(total) / scale;
    if (total == 0.0) return;
    for (std::int64_t j = 0; j < keys_; ++j) {
      probs[index(j)] /= total;
      const double prob = probs[index(j)] * kept(row, head, t, j);
      for (std::int64_t i = 0; i < shape_.head_dim; ++i) {
        to_.out[index(at + i)] += prob * v_[index(key_at(row, head, j) + i)];
      }
    }
    // The sum over keys of prob * dprob, with `out` as backward reads it.
    double inner = 0.0;
    for (std::int64_t i = at; i < at + shape_.head_dim; ++i) {
      const T out = core::to_element<T>(static_cast<float>(to_.out[index(i)]));
      inner += static_cast<double>(core::to_float(out)) * dout_[index(i)];
    }
    for (std::int64_t j = 0; j < keys_; ++j) {
      if (probs[index(j)] == 0.0) continue;
      const std::int64_t key = key_at(row, head, j);
      const double stays = kept(row, head, t, j);
      const double prob = stays * probs[index(j)];
      const double dprob = stays * dot(dout_, at, v_, key);
      const double dscore = probs[index(j)] * (dprob - inner) * slopes[index(j)] * scale;
      for (std::int64_t i = 0; i < shape_.head_dim; ++i) {
        to_.dv[index(key + i)] += prob * dout_[index(at + i)];
        to_.dq[index(at + i)] += dscore * k_[index(key + i)];
        to_.dk[index(key + i)] += dscore * q_[index(at + i)];
      }
    }
  }

  AttentionShape shape_;
  std::int64_t keys_;
  Doubles q_, k_, v_, dout_;
  Expected to_;
};

// What a query's gradient needs of forward, by the formula.
template <class T>
Forward<T> forward_of(const Expected& expected) {
  Forward<T> to;
  for (const double value : expected.out) {
    to.out.push_back(core::to_element<T>(static_cast<float>(value)));
  }
  to.logsumexp.assign(expected.logsumexp.begin(), expected.logsumexp.end());
  return to;
}

}  // namespace fm::emulated

// What the tests of attention on CUDA devices share: inputs, tolerances and calls.
#pragma once

#include <cmath>
#include <limits>
#include <random>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cached.h"
#include "tests/emulated/emulated_case.h"
#include "tests/kernels/dropout_mask.h"

namespace fm::emulated {

using core::Bf16;
using core::F16;
using kernels::AttentionShape;
using kernels::Doubles;
using kernels::Floats;
using kernels::Narrows;

inline core::Work here;

inline std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
const kernels::DeviceProducts<T>& attention() {
  if constexpr (std::is_same_v<T, float>) {
    return table().products.fp32;
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return table().products.bf16;
  } else {
    return table().products.fp16;
  }
}

// Relative L2; NaN or infinite where that is wanted of nothing.
template <class Got>
double distance(const Doubles& expected, const Got& got) {
  if (expected.size() != got.size()) return INFINITY;
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto value = static_cast<double>(core::to_float(got[i]));
    if (std::isinf(expected[i]) && expected[i] == value) continue;
    error += std::pow(value - expected[i], 2);
    norm += std::pow(expected[i], 2);
  }
  return norm == 0.0 ? std::sqrt(error) : std::sqrt(error / norm);
}

template <class T>
Narrows<T> random_elements(std::int64_t count, std::uint32_t seed) {
  return kernels::narrowed<T>(kernels::random_values(count, seed));
}
template <class T>
Doubles to_doubles(const Narrows<T>& values) {
  Doubles out;
  for (const T value : values) out.push_back(static_cast<double>(core::to_float(value)));
  return out;
}

// Documents of up to `most` tokens of a row.
inline std::vector<std::int32_t> random_starts(std::int64_t rows, std::int64_t tokens,
                                               std::uint32_t most) {
  std::mt19937 bits(most);
  std::vector<std::int32_t> starts;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t t = 0; t < tokens;) {
      const std::int64_t length = std::min<std::int64_t>(tokens - t, 1 + bits() % most);
      starts.insert(starts.end(), index(length), static_cast<std::int32_t>(t));
      t += length;
    }
  }
  return starts;
}

// Inputs, exactly as large as the kernels may read.
template <class T>
struct Inputs {
  AttentionShape shape;
  std::int64_t keys;
  Narrows<T> q, k, v, dout;

  explicit Inputs(const AttentionShape& of)
      : shape(of), keys(of.runs.keys > 0 ? of.runs.keys : of.batch.seq_len) {
    const std::int64_t queries = shape.batch.tokens() * shape.heads * shape.head_dim;
    const std::int64_t kept = shape.batch.batch * keys * shape.kv_heads * shape.head_dim;
    q = random_elements<T>(queries, 1);
    k = random_elements<T>(kept, 2);
    v = random_elements<T>(kept, 3);
    dout = random_elements<T>(queries, 4);
  }
};

template <class T>
struct Tolerance {
  double forward, backward;
};
// Probabilities and the gradients of scores are rounded to the elements' type before the second
// products of tiles, so that gradients of bf16 are less exact than their own rounding.
template <class T>
Tolerance<T> tolerance() {
  if constexpr (std::is_same_v<T, float>) return {1e-5, 1e-5};
  if constexpr (std::is_same_v<T, Bf16>) return {5e-3, 1e-2};
  return {1e-3, 2e-3};
}

template <class T>
struct Forward {
  Narrows<T> out;
  Floats logsumexp;
};
template <class T>
Forward<T> forward(const Inputs<T>& in) {
  Forward<T> to{poisoned<T>(std::ssize(in.q)),
                poisoned<float>(in.shape.batch.tokens() * in.shape.heads)};
  attention<T>().attention_forward(
      here, in.shape, {in.q.data(), in.k.data(), in.v.data(), to.out.data(), to.logsumexp.data()});
  return to;
}

template <class T>
struct Gradients {
  Narrows<T> dq, dk, dv;
};
template <class T>
kernels::AttentionBackward<T> backward_arrays(const Inputs<T>& in, const Forward<T>& by,
                                              Gradients<T>& to) {
  return {in.q.data(),    in.k.data(),  in.v.data(),  by.out.data(), by.logsumexp.data(),
          in.dout.data(), to.dq.data(), to.dk.data(), to.dv.data()};
}
template <class T>
Gradients<T> backward(const Inputs<T>& in, const Forward<T>& by) {
  Gradients<T> to{poisoned<T>(std::ssize(in.q)), poisoned<T>(std::ssize(in.k)),
                  poisoned<T>(std::ssize(in.v))};
  attention<T>().attention_backward(here, in.shape, backward_arrays(in, by, to));
  return to;
}

inline AttentionShape shape_of(std::int64_t batch, std::int64_t tokens, std::int64_t heads,
                               std::int64_t kv_heads, std::int64_t dim) {
  return {.batch = {batch, tokens}, .heads = heads, .kv_heads = kv_heads, .head_dim = dim};
}

// A shape with everything: several tiles, groups of heads, a window, dropout.
inline AttentionShape shape_of_all(std::int64_t dim) {
  AttentionShape shape = shape_of(1, 110, 2, 1, dim);
  shape.window = 70;
  shape.dropout = {.key = 7, .dropped = 1U << 29, .scale = 8.0F / 7.0F};
  return shape;
}

// All bits of a result.
template <class T>
std::vector<std::byte> bytes_of(const Forward<T>& forward, const Gradients<T>& gradients) {
  std::vector<std::byte> all;
  const auto add = [&](const auto& values) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    all.insert(all.end(), bytes, bytes + values.size() * sizeof(values[0]));
  };
  add(forward.out);
  add(forward.logsumexp);
  add(gradients.dq);
  add(gradients.dk);
  add(gradients.dv);
  return all;
}

}  // namespace fm::emulated

// Runs every kernel of our own once on a fixed shape and prints "NAME ELEMENTS" for each:
// instruction_counts.py counts the instructions in between with callgrind.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/random_elements.h"
#include "kernels/attention/paths.h"
#include "kernels/variants/variant.h"

namespace {

using fm::random_elements;
using fm::random_values;
using fm::kernels::RowShape;
using Floats = std::vector<float>;

constexpr std::int64_t kWidth = 512;
constexpr std::int64_t kRows = 128;
constexpr std::int64_t kCount = kRows * kWidth;
constexpr std::int64_t kVocab = 32000;
constexpr std::int64_t kTokens = 128;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kHeadDim = kWidth / kHeads;

void counted(const char* name, std::int64_t elements) {
  std::printf("%s %lld\n", name, static_cast<long long>(elements));
}

struct Buffers {
  Floats a = random_values(kCount);
  Floats b = random_values(kCount);
  Floats c = random_values(kCount);
  Floats d = Floats(a.size());
  Floats e = Floats(a.size());
};

void optimizer_kernels(const fm::kernels::Variant& run, Buffers& at) {
  Floats squares(at.a.size(), 1.0F);
  run.adamw({.lr = 1e-3, .weight_decay = 0.1},
            {at.d.data(), at.a.data(), at.e.data(), squares.data(), kCount});
  counted("adamw", kCount);
  run.sgd({.lr = 1e-3, .momentum = 0.9}, {at.d.data(), at.a.data(), at.e.data(), kCount});
  counted("sgd", kCount);
  std::vector<double> blocks(static_cast<std::size_t>(fm::kernels::norm_blocks(kCount)));
  run.squared_norm(at.a, blocks);
  counted("squared_norm", kCount);
  run.add(kCount, at.a.data(), at.d.data());
  counted("add", kCount);
  run.add_squares(kCount, at.a.data(), at.d.data(), blocks);
  counted("add_squares", kCount);
  const std::vector<const float*> rows = {at.a.data(), at.b.data(), at.c.data(), at.a.data()};
  run.tree_add(rows, kCount, at.d.data());
  counted("tree_add", kCount * std::ssize(rows));
  run.tree_add_to_both(kCount, at.d.data(), at.e.data());
  counted("tree_add_to_both", 2 * kCount);
}

void starting_kernels(const fm::kernels::Variant& run, Buffers& at) {
  constexpr std::int64_t kPositions = 128;
  const std::span<const float> frequencies(at.a.data(), 32);
  run.rope_table(frequencies, kPositions, at.d.data(), at.e.data());
  counted("rope_table", kPositions * std::ssize(frequencies));
  constexpr std::int64_t kBlocks = kCount / fm::kernels::kNormalsPerBlock;
  if (run.normals({.key = 1, .scale = 0.02}, 0, kBlocks, at.d.data()) > kBlocks) std::puts("");
  counted("normals", kCount);
}

// `type` follows the names.
template <class T>
void element_kernels(const fm::kernels::ElementTable<T, fm::kernels::WithoutWork>& run,
                     const std::string& type) {
  const auto done = [&](const char* name) { counted((name + type).c_str(), kCount); };
  const RowShape rows{kRows, kWidth};
  const std::vector<T> a = random_elements<T>(kCount);
  const std::vector<T> weight = random_elements<T>(kWidth);
  const Floats dy = random_values(kCount);
  std::vector<T> c(a.size());
  std::vector<T> d(a.size());
  std::vector<T> e(a.size());
  Floats rstd(kRows);
  Floats sums(kWidth);
  run.rmsnorm_rstd(rows, a.data(), 1e-6, rstd.data());
  done("rmsnorm_rstd");
  run.rmsnorm_apply(rows, a.data(), {weight.data()}, rstd.data(), c.data());
  done("rmsnorm_apply");
  run.rmsnorm_backward(rows, {.x = a.data(),
                              .weight = weight.data(),
                              .rstd = rstd.data(),
                              .dy = dy.data(),
                              .residual = a.data(),
                              .dx = d.data(),
                              .dweight_sum = sums.data()});
  done("rmsnorm_backward");
  run.swiglu(kCount, a.data(), c.data(), d.data());
  done("swiglu");
  run.swiglu_backward(kCount, {a.data(), a.data(), a.data(), c.data(), d.data(), e.data()});
  done("swiglu_backward");
  const Floats angles = random_values(kTokens * kHeadDim / 2);
  const fm::kernels::RopeTable table{angles.data(), angles.data(), kHeadDim / 2, kHeadDim};
  run.rope(table, {1, kTokens}, kHeads, d.data());
  done("rope");
  run.rope_inverse(table, {1, kTokens}, kHeads, d.data());
  done("rope_inverse");
  std::vector<std::int32_t> tokens(kRows);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i % 50);
  run.embedding(tokens, a.data(), kWidth, c.data());
  done("embedding");
  Floats dtable = random_values(50 * kWidth);
  run.embedding_backward(tokens, {0, kVocab}, c.data(), kWidth, dtable.data());
  done("embedding_backward");
}

// What blocks other than a Llama's call.
template <class T>
void block_kernels(const fm::kernels::ElementTable<T, fm::kernels::WithoutWork>& run,
                   const std::string& type) {
  using fm::kernels::Activation;
  const auto done = [&](const char* name) { counted((name + type).c_str(), kCount); };
  const RowShape rows{kRows, kWidth};
  const std::vector<T> a = random_elements<T>(kCount);
  const std::vector<T> weight = random_elements<T>(kWidth);
  const Floats dy = random_values(kCount);
  std::vector<T> c(a.size());
  std::vector<T> d(a.size());
  std::vector<T> e(a.size());
  Floats mean(kRows);
  Floats rstd(kRows);
  Floats dweight(kWidth);
  Floats dbias(kWidth);
  run.layernorm_statistics(rows, a.data(), 1e-5, mean.data(), rstd.data());
  done("layernorm_statistics");
  run.layernorm_apply(rows,
                      {a.data(), weight.data(), weight.data(), mean.data(), rstd.data(), c.data()});
  done("layernorm_apply");
  run.layernorm_backward(rows, {a.data(), weight.data(), mean.data(), rstd.data(), dy.data(),
                                a.data(), d.data(), dweight.data(), dbias.data()});
  done("layernorm_backward");
  run.activate(Activation::kGelu, kCount, a.data(), c.data());
  done("activate");
  run.activate_backward(Activation::kGelu, kCount, {a.data(), a.data(), c.data(), d.data()});
  done("activate_backward");
  run.glu(Activation::kGeluTanh, kCount, a.data(), a.data(), c.data());
  done("glu");
  run.glu_backward(Activation::kGeluTanh, kCount,
                   {a.data(), a.data(), a.data(), c.data(), d.data(), e.data()});
  done("glu_backward");
  run.add_bias(rows, weight.data(), c.data());
  done("add_bias");
  run.column_sums(rows, a.data(), dbias.data());
  done("column_sums");
  run.add_residual(kCount, dy.data(), a.data(), c.data());
  done("add_residual");
}

void casts(const fm::kernels::Variant& run, Buffers& at) {
  std::vector<fm::core::Bf16> narrow(at.a.size());
  run.bf16.narrow({kRows, kWidth}, at.a.data(), kWidth, narrow.data(), kWidth);
  counted("cast_rows<float,bf16>", kCount);
  run.bf16.widen({kRows, kWidth}, narrow.data(), kWidth, at.d.data(), kWidth);
  counted("cast_rows<bf16,float>", kCount);
}

void attention_kernels(const fm::kernels::Variant& run, Buffers& at) {
  const fm::kernels::HeadGroup group{.seq_len = kTokens,
                                     .heads = 2,
                                     .head_dim = kHeadDim,
                                     .q_stride = 2 * kHeadDim,
                                     .k_stride = kHeadDim};
  constexpr std::int64_t kScores = 2 * kTokens * kTokens;
  const Floats k = random_values(kTokens * kHeadDim);
  const Floats v = random_values(kTokens * kHeadDim);
  Floats out(static_cast<std::size_t>(2 * kTokens * kHeadDim));
  Floats dk(k.size());
  Floats dv(v.size());
  Floats logsumexp(static_cast<std::size_t>(2 * kTokens));
  const auto elements = std::max(fm::kernels::variant_forward_scratch(group),
                                 fm::kernels::variant_backward_scratch(group));
  Floats memory(static_cast<std::size_t>(elements) + 16);
  void* base = memory.data();
  std::size_t space = memory.size() * sizeof(float);
  auto* scratch = static_cast<float*>(
      std::align(64, static_cast<std::size_t>(elements) * sizeof(float), base, space));
  run.group_attention_forward(
      group, {at.a.data(), k.data(), v.data(), out.data(), logsumexp.data()}, scratch);
  counted("group_attention_forward", kScores);
  run.group_attention_backward(group,
                               {.q = at.a.data(),
                                .k = k.data(),
                                .v = v.data(),
                                .out = out.data(),
                                .logsumexp = logsumexp.data(),
                                .dout = at.b.data(),
                                .dq = at.d.data(),
                                .dk = dk.data(),
                                .dv = dv.data()},
                               scratch);
  counted("group_attention_backward", kScores);
}

void vocabulary_kernels(const fm::kernels::Variant& run) {
  constexpr std::int64_t kFew = 4;
  const fm::kernels::LogitRows shape{kFew, kVocab};
  Floats logits = random_values(kFew * kVocab);
  const std::vector<std::int32_t> labels = {1, 31999, 7, 16000};
  double sum = 0.0;
  run.cross_entropy_loss(shape, logits.data(), labels.data(), &sum);
  counted("cross_entropy_loss", kFew * kVocab);
  run.cross_entropy(shape, logits.data(), labels.data(), {0.25}, &sum);
  counted("cross_entropy", kFew * kVocab);
  if (!(sum > 0.0)) std::puts("the loss must be positive");
}

}  // namespace

int main() {
  const fm::kernels::Variant& run = fm::kernels::chosen_variant();
  Buffers at;
  optimizer_kernels(run, at);
  starting_kernels(run, at);
  element_kernels(run.fp32, "");
  element_kernels(run.bf16, "<bf16>");
  block_kernels(run.fp32, "");
  block_kernels(run.bf16, "<bf16>");
  casts(run, at);
  attention_kernels(run, at);
  vocabulary_kernels(run);
  return 0;
}

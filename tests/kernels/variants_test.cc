// Every instruction set gives the bits of the baseline: odd lengths, and values of every kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "core/check.h"
#include "kernels/attention/paths.h"
#include "tests/kernels/variants_case.h"

namespace fm::kernels {
namespace {

TEST_P(Variants, Normals) {
  expect_as_baseline([&](const Variant& variant) {
    Floats out(static_cast<std::size_t>(kNormalsPerBlock * size()));
    variant.normals({0x123456789ABCDEFU, 0.02}, 0xFFFFFFFEU, size(), out.data());
    return out;
  });
}

TEST_P(Variants, AddAndTreeAdd) {
  expect_as_baseline([&](const Variant& variant) {
    Floats into = values(size(), 1);
    variant.add(size(), values(size(), 2).data(), into.data());
    Floats rows[] = {values(size(), 3), values(size(), 4), values(size(), 5)};
    const std::vector<const float*> pointers = {rows[0].data(), rows[1].data(), rows[2].data()};
    Floats sum(into.size());
    variant.tree_add(pointers, size(), sum.data());
    variant.tree_add_to_both(size(), rows[0].data(), rows[1].data());
    for (const auto& r : {sum, rows[0], rows[1]}) into.insert(into.end(), r.begin(), r.end());
    return into;
  });
}

TEST_P(Variants, AddSquares) {
  expect_as_baseline([&](const Variant& variant) {
    Floats into = values(size(), 1);
    std::vector<double> blocks(static_cast<std::size_t>(norm_blocks(size())));
    variant.add_squares(size(), values(size(), 2).data(), into.data(), blocks);
    for (const double block : blocks) {  // both halves of its bits
      const auto bits = std::bit_cast<std::array<float, 2>>(block);
      into.insert(into.end(), bits.begin(), bits.end());
    }
    return into;
  });
}

TEST_P(Variants, AdamwInBothModes) {
  for (const WeightDecay mode : {WeightDecay::kDecoupled, WeightDecay::kL2}) {
    expect_as_baseline([&](const Variant& variant) {
      Floats param = values(size(), 1);
      const Floats grad = values(size(), 2);
      Floats first = values(size(), 3);
      Floats second = positive(size(), 4);
      const AdamwStep step{.lr = 1e-3,
                           .weight_decay = 0.1,
                           .mode = mode,
                           .correction1 = 0.271,
                           .correction2 = 0.003,
                           .grad_scale = 0.37F};
      variant.adamw(step, {param.data(), grad.data(), first.data(), second.data(), size()});
      for (const auto& r : {first, second}) param.insert(param.end(), r.begin(), r.end());
      return param;
    });
  }
}

TEST_P(Variants, PartsOfMuon) {
  expect_as_baseline([&](const Variant& variant) {
    Floats param = values(size(), 1);
    Floats grad = values(size(), 2);
    Floats momentum = values(size(), 3);
    variant.muon_begin({0.95F, 0.05F, 0.37F}, size(), grad.data(), momentum.data());
    variant.muon_move(0.99F, 0.02F, size(), grad.data(), param.data());
    Floats finite = values(size(), 4, false);
    Doubles blocks(static_cast<std::size_t>(norm_blocks(size())));
    variant.divide_by_norm(finite, blocks);
    const Floats squared = values(size() * size(), 5);
    Floats factor = values(size() * size(), 6);
    variant.quintic_factor({3.4F, -4.7F, 2.0F}, size(), squared.data(), factor.data());
    for (const auto& r : {grad, momentum, finite, factor}) append(param, r);
    return param;
  });
}

TEST_P(Variants, PartsOfRowsAndVocabularies) {
  expect_as_baseline([&](const Variant& variant) {
    const SplitShape shape{.rows = 3, .width = size(), .all = 2 * size()};
    const Floats x = values(3 * size(), 1);
    const Floats w = values(size(), 2);
    const Floats dy = values(3 * size(), 3);
    Floats rstd = positive(3, 4);
    Floats out(x.size());
    Floats dw(w.size());
    Doubles numbers(3);
    variant.split_squares(shape, rstd.data(), numbers.data());
    variant.split_rstd(shape, 1e-5, numbers.data(), rstd.data());
    const SplitNormBackward<float> at{x.data(),  w.data(),   rstd.data(),
                                      dy.data(), out.data(), dw.data()};
    variant.fp32.split_products(shape, at, numbers.data());
    variant.fp32.split_input(shape, at, numbers.data());
    for (const auto& r : {rstd, dw}) append(out, r);
    Floats logits = values(3 * size(), 5, false);
    const std::int32_t labels[] = {0, kIgnoredLabel, static_cast<std::int32_t>(size())};
    Doubles parts(2 * 9, 1.0);
    variant.label_logits({3, size()}, logits.data(), labels, 0, parts.data() + 6);
    variant.exponentials({3, size()}, 0.0F, logits.data(), parts.data(), parts.data() + 3);
    double sum = 0.0;
    variant.cross_entropy_of_parts({3, size()}, logits.data(), labels, {0, 0, 2, parts.data()},
                                   {0.125}, &sum);
    append(out, logits);
    logits = values(3 * size(), 5, false);
    variant.form_logits({3, size()}, {.scale = 0.5F}, logits.data());
    append(out, logits);
    variant.exponentials({3, size()}, 9.0F, logits.data(), parts.data(), parts.data() + 3);
    append(out, logits);
    logits = values(3 * size(), 5, false);
    const TileRows tile{{3, size()}, 0, labels};
    Floats of_rows(6);
    const LogitSums known{of_rows.data(), of_rows.data() + 3, parts.data()};
    variant.tile_maxima(tile.shape, logits.data(), true, known.max);
    variant.tile_sums(tile, logits.data(), known);
    variant.tiled_losses(3, labels, known, &sum);
    variant.tile_gradients(tile, logits.data(), known, {0.125, 9.0F});
    append(out, logits);
    append(out, of_rows);
    out.push_back(static_cast<float>(sum));
    const std::vector<std::int32_t> tokens = {1, 9, 0, 2};
    Floats rows(4 * w.size());
    variant.fp32.embedding_part(tokens, {.first = 0, .count = 3}, x.data(), size(), rows.data());
    append(out, rows);
    return out;
  });
}

TEST_P(Variants, SgdLionLambAndAdagrad) {
  for (const double momentum : {0.0, 0.9}) {
    for (const Lookahead lookahead : {Lookahead::kPlain, Lookahead::kNesterov}) {
      expect_as_baseline([&](const Variant& variant) {
        Floats param = values(size(), 1);
        const Floats grad = values(size(), 2);
        Floats buffer = values(size(), 3);
        Floats sum = positive(size(), 4);
        variant.sgd({.lr = 0.01,
                     .momentum = momentum,
                     .dampening = 0.1,
                     .weight_decay = 0.1,
                     .lookahead = lookahead,
                     .grad_scale = 0.7F},
                    {param.data(), grad.data(), buffer.data(), size()});
        variant.lion({.lr = 0.01, .weight_decay = 0.1, .grad_scale = 0.7F},
                     {param.data(), grad.data(), buffer.data(), size()});
        variant.adagrad({.lr = 0.01, .weight_decay = 0.1, .grad_scale = 0.7F},
                        {param.data(), grad.data(), sum.data(), size()});
        Floats direction = grad;
        variant.lamb_direction({.weight_decay = 0.1, .grad_scale = 0.7F},
                               {param.data(), direction.data(), buffer.data(), sum.data(), size()});
        variant.lamb_move(0.01F, size(), direction.data(), param.data());
        for (const auto& r : {buffer, sum, direction})
          param.insert(param.end(), r.begin(), r.end());
        return param;
      });
    }
  }
}

TEST_P(Variants, AttentionAndItsBackward) {
  std::vector<std::int32_t> starts(250);
  for (std::size_t t = 0; t < starts.size(); ++t)
    starts[t] = static_cast<std::int32_t>(t / 90 * 90);
  const HeadGroup plain{.seq_len = std::min<std::int64_t>(size(), 250),
                        .heads = 2,
                        .head_dim = 20,
                        .q_stride = 40,
                        .k_stride = 20};
  const std::int64_t queries = plain.seq_len * plain.q_stride;
  const std::int64_t keys = plain.seq_len * plain.k_stride;
  for (const auto& [special, apart] : {std::pair{false, false}, {true, false}, {false, true}}) {
    HeadGroup group = plain;
    if (apart) group.starts = starts.data();
    if (apart) group.softcap = 2.0F;
    if (apart) group.dropout = {.key = 7, .dropped = 1U << 30, .scale = 4.0F / 3.0F};
    expect_as_baseline([&](const Variant& variant) {
      const Floats q = values(queries, 1, special);
      const Floats k = values(keys, 2, special);
      const Floats v = values(keys, 3, special);
      const Floats dout = values(queries, 4, special);
      Floats out(q.size()), logsumexp(static_cast<std::size_t>(2 * group.seq_len));
      Floats dq(q.size()), dk(k.size()), dv(v.size());
      Floats scratch(static_cast<std::size_t>(
          std::max(variant_forward_scratch(group), variant_backward_scratch(group))));
      variant.group_attention_forward(
          group, {q.data(), k.data(), v.data(), out.data(), logsumexp.data()}, scratch.data());
      variant.group_attention_backward(group,
                                       {q.data(), k.data(), v.data(), out.data(), logsumexp.data(),
                                        dout.data(), dq.data(), dk.data(), dv.data()},
                                       scratch.data());
      for (const Floats& more : {logsumexp, dq, dk, dv}) {
        out.insert(out.end(), more.begin(), more.end());
      }
      return out;
    });
  }
}

TEST_P(Variants, CrossEntropyAndItsLoss) {
  const LogitRows shape{3, size()};
  const std::int32_t labels[] = {0, kIgnoredLabel, static_cast<std::int32_t>(size() - 1)};
  for (const bool special : {false, true}) {
    expect_as_baseline([&](const Variant& variant) {
      Floats logits = values(3 * size(), 1, special);
      double before = 0.5;
      variant.cross_entropy_loss(shape, logits.data(), labels, &before);
      double after = 0.5;
      variant.cross_entropy(shape, logits.data(), labels, {0.125}, &after);
      EXPECT_TRUE(before == after || std::isnan(before)) << before << ' ' << after;
      logits.push_back(static_cast<float>(after));
      logits.push_back(static_cast<float>((after - std::floor(after)) * 1e7));
      Floats capped = values(3 * size(), 1, special);
      variant.form_logits(shape, {.scale = 0.5F, .softcap = 1.5F}, capped.data());
      append(logits, capped);
      variant.cross_entropy(shape, capped.data(), labels, {0.125, 1.5F}, &after);
      append(logits, capped);
      return logits;
    });
  }
}

TEST_P(Variants, EmbeddingAndItsBackward) {
  const std::vector<std::int32_t> tokens = {2, 0, 2, 1};
  expect_as_baseline([&](const Variant& variant) {
    Floats table = values(3 * size(), 1);
    Floats out(static_cast<std::size_t>(4 * size()));
    variant.fp32.embedding(tokens, table.data(), size(), out.data());
    variant.fp32.embedding_backward(tokens, {0, 4}, values(4 * size(), 2).data(), size(),
                                    table.data());
    out.insert(out.end(), table.begin(), table.end());
    return out;
  });
}

TEST_P(Variants, RmsnormAndItsBackward) {
  const RowShape shape{3, size()};
  for (const bool special : {false, true}) {
    expect_as_baseline([&](const Variant& variant) {
      const Floats x = values(3 * size(), 1, special);
      const Floats weight = values(size(), 2);
      const Floats dy = values(3 * size(), 3, special);
      Floats rstd(3);
      variant.fp32.rmsnorm_rstd(shape, x.data(), 1e-5, rstd.data());
      Floats y(x.size());
      variant.fp32.rmsnorm_apply(shape, x.data(), {weight.data()}, rstd.data(), y.data());
      Floats dx(x.size());
      Floats dweight = values(size(), 4);
      RmsnormBackward<float> at{.x = x.data(),
                                .weight = weight.data(),
                                .rstd = rstd.data(),
                                .dy = dy.data(),
                                .dx = dx.data(),
                                .dweight_sum = dweight.data()};
      variant.fp32.rmsnorm_backward(shape, at);
      y.insert(y.end(), dx.begin(), dx.end());
      at.residual = dy.data();
      variant.fp32.rmsnorm_backward(shape, at);
      y.insert(y.end(), dx.begin(), dx.end());
      y.insert(y.end(), dweight.begin(), dweight.end());
      y.insert(y.end(), rstd.begin(), rstd.end());
      return y;
    });
  }
}

TEST_P(Variants, RopeItsInverseAndItsTable) {
  const core::BatchShape shape{1, 2};
  expect_as_baseline([&](const Variant& variant) {
    const Floats frequencies = positive(size(), 1);
    Floats cos(static_cast<std::size_t>(2 * size()));
    Floats sin(cos.size());
    variant.rope_table(frequencies, 2, cos.data(), sin.data());
    Floats x = values(2 * 3 * 2 * size(), 2);
    variant.fp32.rope({cos.data(), sin.data(), size(), 2 * size()}, shape, 3, x.data());
    Floats out = x;
    variant.fp32.rope_inverse({cos.data(), sin.data(), size(), 2 * size()}, shape, 3, x.data());
    for (const Floats& more : {x, cos, sin}) out.insert(out.end(), more.begin(), more.end());
    return out;
  });
}

TEST_P(Variants, SquaredNorm) {
  const Floats input = values(size(), 1, false);
  const auto run = [&](const Variant& variant) {
    std::vector<double> blocks(static_cast<std::size_t>(norm_blocks(size())));
    variant.squared_norm(input, blocks);
    return blocks;
  };
  const std::vector<double> expected = run(*candidates()[0].variant);
  for (const auto& [variant, runs_here] : candidates().subspan(1)) {
    if (runs_here()) expect_same_bits(run(*variant), expected);
  }
}

TEST_P(Variants, AnyReaches) {
  Floats input = values(size(), 1, false);
  for (const bool bad : {false, true}) {
    if (bad) input.back() = NAN;
    for (const auto& [variant, runs_here] : candidates()) {
      if (!runs_here()) continue;
      std::int32_t found = -1;
      variant->any_reaches(input, 1e30F, &found);
      EXPECT_EQ(found, bad ? 1 : 0);
    }
  }
}

TEST_P(Variants, SwigluAndItsBackward) {
  expect_as_baseline([&](const Variant& variant) {
    const Floats gate = values(size(), 1);
    const Floats up = values(size(), 2);
    const Floats dy = values(size(), 3);
    Floats y(gate.size());
    variant.fp32.swiglu(size(), gate.data(), up.data(), y.data());
    Floats dgate(gate.size());
    Floats dup(gate.size());
    Floats again = up;
    variant.fp32.swiglu_backward(
        size(), {gate.data(), again.data(), dy.data(), dgate.data(), dup.data(), again.data()});
    expect_same_bits(again, y);
    y.insert(y.end(), dgate.begin(), dgate.end());
    y.insert(y.end(), dup.begin(), dup.end());
    return y;
  });
}

TEST_P(Variants, TileProduct) {
  const std::int64_t depth = std::min<std::int64_t>(size(), 300);
  for (const Beta beta : {Beta::kZero, Beta::kOne}) {
    for (const std::int64_t columns : {16, 32, 48, 64, 80}) {
      expect_as_baseline([&](const Variant& variant) {
        const Floats a = values(24 * depth, 1, false);
        const Floats b = values(depth * columns, 2, false);
        Floats c = values(24 * columns, 3);
        variant.tile_product({24, columns, depth}, {a.data(), depth}, {b.data(), columns},
                             {c.data(), columns, beta}, {});
        return c;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Variants, testing::Values(1, 7, 16, 17, 31, 64, 250, 1031, 4099));

}  // namespace
}  // namespace fm::kernels

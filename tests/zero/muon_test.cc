// Muon, whose direction follows from a whole matrix, on slices: against its definition in fp64, on
// any number of ranks.
#include <gtest/gtest.h>

#include <cmath>

#include "comm/meet/world.h"
#include "tests/zero/one_rank.h"
#include "zero/optimizer_shard.h"

namespace fm::zero {
namespace {

constexpr int kSteps = 3;
constexpr double kLr = 0.02, kDecay = 0.1, kMomentum = 0.95, kAdamRate = 0.25, kGradScale = 0.5;

const core::ParamTable& table() {
  static const core::ParamTable kTable(
      {{.name = "wide", .shape = {33, 50}},
       {.name = "tall", .shape = {70, 40}},
       {.name = "lm_head.weight", .shape = {20, 10}, .kind = core::ParamKind::kEmbedding},
       {.name = "norm", .shape = {37}, .kind = core::ParamKind::kNorm}},
      {.norm = true});
  return kTable;
}

float param_of(std::int64_t i) { return std::sin(static_cast<float>(i)); }
float grad_of(std::int64_t i, int step) {
  return std::cos(static_cast<float>(3 * i + (i * i) % 11 + 7 * step));
}

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b[0].size(); ++j) out[i][j] += a[i][k] * b[k][j];
    }
  }
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) out[j][i] = a[i][j];
  }
  return out;
}

// zeropower_via_newtonschulz5 of the publication.
Matrix orthogonalized(Matrix x) {
  const bool tall = x.size() > x[0].size();
  if (tall) x = transposed(x);
  double sum = 0.0;
  for (const auto& row : x) {
    for (const double value : row) sum += value * value;
  }
  for (auto& row : x) {
    for (double& value : row) value /= std::sqrt(sum) + 1e-7;
  }
  for (int i = 0; i < 5; ++i) {
    const Matrix a = product(x, transposed(x));
    Matrix b = product(a, a);
    for (std::size_t r = 0; r < b.size(); ++r) {
      for (std::size_t c = 0; c < b.size(); ++c) b[r][c] = 2.0315 * b[r][c] - 4.7750 * a[r][c];
    }
    const Matrix y = product(b, x);
    for (std::size_t r = 0; r < x.size(); ++r) {
      for (std::size_t c = 0; c < x[0].size(); ++c) x[r][c] = 3.4445 * x[r][c] + y[r][c];
    }
  }
  return tall ? transposed(x) : x;
}

std::vector<double> muon(const core::ParamEntry& entry) {
  const auto rows = static_cast<std::size_t>(entry.shape[0]);
  const auto cols = static_cast<std::size_t>(entry.shape[1]);
  std::vector<double> p(rows * cols), m(rows * cols, 0.0);
  const auto flat = [&](std::size_t i) {
    return entry.offset.count() + static_cast<std::int64_t>(i);
  };
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<double>(param_of(flat(i)));
  for (int step = 1; step <= kSteps; ++step) {
    Matrix update(rows, std::vector<double>(cols));
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double grad = kGradScale * static_cast<double>(grad_of(flat(i), step));
      m[i] += (1 - kMomentum) * (grad - m[i]);
      update[i / cols][i % cols] = grad + kMomentum * (m[i] - grad);
    }
    update = orthogonalized(update);
    const double scale =
        std::sqrt(std::max(1.0, static_cast<double>(rows) / static_cast<double>(cols)));
    for (std::size_t i = 0; i < p.size(); ++i) {
      p[i] *= 1 - kLr * kDecay;
      p[i] -= kLr * scale * update[i / cols][i % cols];
    }
  }
  return p;
}

std::vector<double> adamw(const core::ParamEntry& entry, double decay) {
  std::vector<double> out;
  for (std::int64_t i = entry.offset.count(); i < (entry.offset + entry.numel).count(); ++i) {
    double p = static_cast<double>(param_of(i)), m = 0.0, v = 0.0;
    const double lr = kLr * kAdamRate;
    for (int step = 1; step <= kSteps; ++step) {
      const double grad = kGradScale * static_cast<double>(grad_of(i, step));
      m = 0.9 * m + 0.1 * grad;
      v = 0.95 * v + 0.05 * grad * grad;
      p *= 1 - lr * decay;
      p -= lr * (m / (1 - std::pow(0.9, step))) /
           (std::sqrt(v / (1 - std::pow(0.95, step))) + 1e-10);
    }
    out.push_back(p);
  }
  return out;
}

// All parameters after the steps, in the order of the table.
std::vector<float> on_ranks(int zero_stage, int ranks) {
  std::vector<float> out(static_cast<std::size_t>(table().elements().count()));
  comm::run_ranks(ranks, [&](comm::Communicator& dp) {
    const optim::OptimizerOptions options = {.rule = &optim::kMuon,
                                             .weight_decay = kDecay,
                                             .betas = {0.9, 0.95},
                                             .eps = 1e-10,
                                             .momentum = kMomentum,
                                             .adam_rate = kAdamRate};
    core::Ledger ledger;
    LayoutInput input;
    input.rules.plan = core::plan_of(zero_stage, core::SumOrder::kFast);
    input.rules.matrices = optim::kMuon.by_matrix;
    input.tables = {&table()};
    const Layout layout = one_rank(input, dp);
    ParamStore params(layout, ledger, dp);
    GradStore grads(layout, ledger, dp);
    OptimizerShard shard(layout, ledger, options, {.data = dp.size() == 1 ? nullptr : &dp});
    const Range own = layout.at(0).optimizer;
    auto* const kept = static_cast<float*>(zero_stage == 0 ? params.kept(0) : params.slice(0));
    const std::span<float> grad = zero_stage == 0 ? grads.kept(0) : grads.slice(0);
    const auto for_own = [&](const auto& body) {
      for (std::int64_t i = own.first.count(); i < (own.first + own.count).count(); ++i) {
        if (table().find_at(core::Elements(i)) != nullptr) body(i, i - own.first.count());
      }
    };
    for_own([&](std::int64_t i, std::int64_t at) { kept[at] = param_of(i); });
    core::Work work;
    for (int step = 1; step <= kSteps; ++step) {
      for_own([&](std::int64_t i, std::int64_t at) {
        grad[static_cast<std::size_t>(at)] = grad_of(i, step);
      });
      shard.update(work, 0, {.lr = kLr, .step = step, .grad_scale = kGradScale}, params, grads);
    }
    if (zero_stage == 0 && dp.rank() > 0) return;  // every rank has all of them
    for_own([&](std::int64_t i, std::int64_t at) { out[static_cast<std::size_t>(i)] = kept[at]; });
  });
  return out;
}

TEST(Muon, EqualsItsDefinitionOnOneRank) {
  const std::vector<float> got = on_ranks(2, 1);
  for (const core::ParamEntry& entry : table().entries()) {
    const bool matrix = entry.kind == core::ParamKind::kMatrix;
    const double decay = entry.kind == core::ParamKind::kNorm ? 0.0 : kDecay;
    const std::vector<double> expected = matrix ? muon(entry) : adamw(entry, decay);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<std::size_t>(entry.offset.count()) + i;
      ASSERT_NEAR(static_cast<double>(got[at]), expected[i], 1e-6) << entry.name << " " << i;
    }
  }
}

TEST(Muon, AnyNumberOfRanksAndStageGivesTheSameBits) {
  const std::vector<float> alone = on_ranks(2, 1);
  for (const int ranks : {2, 3, 4}) {
    for (const int zero_stage : {0, 1, 2}) {
      EXPECT_EQ(on_ranks(zero_stage, ranks), alone) << ranks << " ranks, ZeRO " << zero_stage;
    }
  }
}

}  // namespace
}  // namespace fm::zero

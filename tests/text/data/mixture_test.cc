#include "text/data/mixture.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/small_streams.h"
#include "text/data/batch_stream.h"
#include "text/data/id_rows.h"

namespace fm::data {
namespace {

using testing::address_stream;
using testing::read_row;

// Sources of `rows` rows of 2 ids in file order: row r of source s begins with 1000 s + 2 r.
std::unique_ptr<SampleSource> mixture_of(const std::vector<double>& weights,
                                         std::vector<std::int64_t> rows) {
  std::vector<std::unique_ptr<SampleSource>> sources;
  for (std::size_t at = 0; at < weights.size(); ++at) {
    sources.push_back(make_rows(address_stream(static_cast<int>(at), {}, 2 * rows[at]),
                                {.seq_len = 1, .vocab = 100'000}, ""));
  }
  return make_mixture(std::move(sources), weights);
}

// Which source and which row a sample is.
std::pair<std::int32_t, std::int32_t> pick(const SampleSource& source, std::int64_t position) {
  const std::int32_t id = read_row(source, position, 1).tokens[0];
  return {id / 1000, id % 1000 / 2};
}

// Megatron-LM's helpers.cpp by hand for 0.5, 0.3, 0.2. Before each sample they are behind by
// (.5 .3 .2), (-.5 .3 .2), (0 -.4 .4), (.5 -.1 -.4), (0 .2 -.2), (.5 -.5 0), (0 -.2 .2),
// (.5 .1 -.6), (0 .4 -.4), (.5 -.3 -.2).
TEST(Mixture, TheSourceFurthestBehindItsShareIsNext) {
  const auto source = mixture_of({50, 30, 20}, {400, 400, 400});
  std::string picture;
  for (std::int64_t p = 0; p < 10; ++p) picture += static_cast<char>('a' + pick(*source, p).first);
  EXPECT_EQ(picture, "abcabacaba");
  EXPECT_EQ(source->samples_per_epoch(), 1200);
}

TEST(Mixture, EveryStretchHasItsSharesAndEverySourceItsOrder) {
  const double weights[] = {0.123, 0.577, 0.3};
  const auto source = mixture_of({weights[0], weights[1], weights[2]}, {7, 400, 33});
  const std::int64_t rows[] = {7, 400, 33};
  std::int64_t counts[3] = {};
  for (std::int64_t p = 0; p < 30'000; ++p) {
    const auto [from, row] = pick(*source, p);
    const auto at = static_cast<std::size_t>(from);
    ASSERT_EQ(row, counts[at]++ % rows[at]) << p;
    for (std::size_t s = 0; s < 3; ++s) {
      ASSERT_LT(std::abs(static_cast<double>(counts[s]) - weights[s] * static_cast<double>(p + 1)),
                1.5);
    }
  }
}

// A sample is a function of its position: ranks and resumed runs see the same.
TEST(Mixture, DoesNotDependOnRanks) {
  const auto source = mixture_of({1, 2}, {50, 50});
  for (int r = 0; r < 2; ++r) {
    BatchStream stream(*source, {.shape = {.batch = 2, .seq_len = 1}, .dp_size = 2, .dp_rank = r});
    stream.load_step(20'004);
    for (std::int64_t b = 0; b < 2; ++b) {
      EXPECT_EQ(stream.micro(0).tokens_BT[static_cast<std::size_t>(b)],
                read_row(*source, 20'004 + 2 * r + b, 1).tokens[0]);
    }
  }
}

TEST(Mixture, TheFingerprintHoldsTheShares) {
  const std::string half = mixture_of({1, 1}, {50, 50})->fingerprint();
  EXPECT_EQ(half, mixture_of({7, 7}, {50, 50})->fingerprint());
  EXPECT_NE(half, mixture_of({1, 2}, {50, 50})->fingerprint());
  EXPECT_NE(half.find("5000/10000 address 1"), std::string::npos) << half;
}

TEST(Mixture, AWeightThatNeverComesIsRefused) {
  const std::string said = testing::message_of<core::UserError>(10, [] {
    mixture_of({1, 0.00001}, {50, 50});
  });
  EXPECT_NE(said.find("at least 1 / 10000 of their sum"), std::string::npos) << said;
}

}  // namespace
}  // namespace fm::data

// Expected values: transformers 5.x LlamaRotaryEmbedding on CPU, head_dim 24, as exact fp32.
#include "model/attention/rope_frequencies.h"

#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <thread>

namespace fm::model {
namespace {

using Frequencies = std::vector<float>;

TEST(RopeFrequencies, DefaultEqualsTransformers) {
  EXPECT_EQ(rope_frequencies({.theta = 10000.0}, 24),
            (Frequencies{0x1p+0F, 0x1.db4c78p-2F, 0x1.b93a6ap-3F, 0x1.99999ap-4F, 0x1.7c3d2ap-5F,
                         0x1.60fb8cp-6F, 0x1.47ae14p-7F, 0x1.3030f4p-8F, 0x1.1a62d2p-9F,
                         0x1.0624dep-10F, 0x1.e6b4b8p-12F, 0x1.c3d14ep-13F}));
}

TEST(RopeFrequencies, LinearScalingEqualsTransformers) {
  EXPECT_EQ(
      rope_frequencies({.type = RopeConfig::Type::kLinear, .theta = 10000.0, .factor = 2.5}, 24),
      (Frequencies{0x1.99999ap-2F, 0x1.7c3d2cp-3F, 0x1.60fb88p-4F, 0x1.47ae14p-5F, 0x1.3030eep-6F,
                   0x1.1a62d6p-7F, 0x1.0624dcp-8F, 0x1.e6b4bap-10F, 0x1.c3d15p-11F, 0x1.a36e3p-12F,
                   0x1.855d6p-13F, 0x1.69743ep-14F}));
}

TEST(RopeFrequencies, Llama3ScalingEqualsTransformers) {
  const RopeConfig config{.type = RopeConfig::Type::kLlama3,
                          .theta = 500000.0,
                          .factor = 8.0,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0,
                          .original_max_position_embeddings = 64};
  EXPECT_EQ(rope_frequencies(config, 24),
            (Frequencies{0x1p+0F, 0x1.1c4bc2p-2F, 0x1.32c2cp-6F, 0x1.34119p-8F, 0x1.9cd9d2p-10F,
                         0x1.14a2e4p-11F, 0x1.72ba42p-13F, 0x1.f0d27p-15F, 0x1.4ce6ecp-16F,
                         0x1.be2188p-18F, 0x1.2aefa4p-19F, 0x1.909caap-21F}));
}

TEST(RopeFrequencies, Llama3BandEndsFollowFromItsFactors) {
  const RopeConfig config{.type = RopeConfig::Type::kLlama3,
                          .theta = 500000.0,
                          .factor = 8.0,
                          .low_freq_factor = 2.0,
                          .high_freq_factor = 5.0,
                          .original_max_position_embeddings = 4096};
  EXPECT_EQ(rope_frequencies(config, 24),
            (Frequencies{0x1p+0F, 0x1.571288p-2F, 0x1.cbc2aap-4F, 0x1.34119p-5F, 0x1.9cd9d2p-7F,
                         0x1.7cf0bap-10F, 0x1.72ba42p-13F, 0x1.f0d27p-15F, 0x1.4ce6ecp-16F,
                         0x1.be2188p-18F, 0x1.2aefa4p-19F, 0x1.909caap-21F}));
}

TEST(RopeFrequencies, YarnEqualsTransformers) {
  RopeConfig config{.type = RopeConfig::Type::kYarn,
                    .theta = 10000.0,
                    .factor = 4.0,
                    .original_max_position_embeddings = 64};
  EXPECT_EQ(rope_frequencies(config, 24),
            (Frequencies{0x1p+0F, 0x1.822e22p-2F, 0x1.13c482p-3F, 0x1.666668p-5F, 0x1.7c3d2ap-7F,
                         0x1.60fb8cp-8F, 0x1.47ae14p-9F, 0x1.3030f4p-10F, 0x1.1a62d2p-11F,
                         0x1.0624dep-12F, 0x1.e6b4b8p-14F, 0x1.c3d14ep-15F}));
  config.theta = 500000.0;
  config.factor = 8.0;
  config.original_max_position_embeddings = 1024;
  config.beta_fast = 16.0;
  config.beta_slow = 2.0;
  config.truncate = false;
  EXPECT_EQ(rope_frequencies(config, 24),
            (Frequencies{0x1p+0F, 0x1.571288p-2F, 0x1.cbc2aap-4F, 0x1.6f5a76p-6F, 0x1.c1704ap-10F,
                         0x1.14a2e4p-11F, 0x1.72ba42p-13F, 0x1.f0d27p-15F, 0x1.4ce6ecp-16F,
                         0x1.be2188p-18F, 0x1.2aefa4p-19F, 0x1.909caap-21F}));
}

const RopeConfig kLongrope{.type = RopeConfig::Type::kLongrope,
                           .theta = 10000.0,
                           .rotary_dim = 12,
                           .original_max_position_embeddings = 128,
                           .attention_factor = 1.25,
                           .short_factor = {1.0, 1.25, 1.5, 1.75, 2.0, 2.5},
                           .long_factor = {1.0, 2.0, 4.0, 8.0, 16.0, 32.0}};

TEST(RopeFrequencies, LongropeOfHalfAHeadEqualsTransformers) {
  EXPECT_EQ(rope_frequencies(kLongrope, 24, 128),
            (Frequencies{0x1p+0F, 0x1.60fb88p-3F, 0x1.fafc36p-6F, 0x1.767dcep-8F, 0x1.1a62d2p-10F,
                         0x1.855d6p-13F}));
  EXPECT_EQ(rope_frequencies(kLongrope, 24, 129),
            (Frequencies{0x1p+0F, 0x1.b93a6ap-4F, 0x1.7c3d2ap-7F, 0x1.47ae14p-10F, 0x1.1a62d2p-13F,
                         0x1.e6b4b8p-17F}));
}

TEST(RopeTables, LongRowsHaveTheirOwnAndBothAreScaled) {
  RopeTables tables(kLongrope, 24);
  const kernels::RopeTable short_rows = tables.get(core::Work(), 100);
  const kernels::RopeTable long_rows = tables.get(core::Work(), 200);
  EXPECT_EQ(short_rows.half_dim, 6);
  EXPECT_EQ(short_rows.head_dim, 24);
  // The second frequency at position 1, by the values above.
  EXPECT_EQ(short_rows.cos[7], static_cast<float>(std::cos(0x1.60fb88p-3)) * 1.25F);
  EXPECT_EQ(long_rows.cos[7], static_cast<float>(std::cos(0x1.b93a6ap-4)) * 1.25F);
  EXPECT_EQ(tables.get(core::Work(), 128).cos[7], short_rows.cos[7]);
}

TEST(RopeTables, EqualTransformersAtAFarPosition) {
  RopeTables tables({.theta = 10000.0}, 24);
  const kernels::RopeTable table = tables.get(core::Work(), 201);
  const Frequencies cos = {0x1.f2e154p-2F,  0x1.3bc21p-3F,  0x1.40d226p-1F,  0x1.a1e044p-2F,
                           -0x1.fae022p-1F, -0x1.9214cp-2F, -0x1.aa2266p-2F, 0x1.32c7eap-1F,
                           0x1.d13374p-1F,  0x1.f5cb4ap-1F, 0x1.fdcba2p-1F,  0x1.ff8658p-1F};
  const Frequencies sin = {-0x1.bf20d2p-1F, -0x1.f9e0c4p-1F, -0x1.8f057p-1F, 0x1.d36d9p-1F,
                           0x1.210824p-3F,  -0x1.d6e0fp-1F,  0x1.d18f6ep-1F, 0x1.99e9fap-1F,
                           0x1.abb376p-2F,  0x1.96dff2p-3F,  0x1.7bb17p-4F,  0x1.60df8ep-5F};
  for (std::size_t i = 0; i < 12; ++i) {  // torch's cosine may be one unit off
    EXPECT_FLOAT_EQ(table.cos[200 * 12 + i], cos[i]) << i;
    EXPECT_FLOAT_EQ(table.sin[200 * 12 + i], sin[i]) << i;
  }
}

TEST(RopeTables, HandedOutTablesSurviveLongerOnes) {
  RopeTables tables({}, 8);
  const kernels::RopeTable small = tables.get(core::Work(), 10);
  const float before = small.cos[9 * 4];
  const kernels::RopeTable large = tables.get(core::Work(), 1000);
  EXPECT_EQ(small.cos[9 * 4], before);
  EXPECT_EQ(large.cos[9 * 4], before);
  EXPECT_EQ(tables.get(core::Work(), 10).cos, large.cos);
}

// Every thread asks for ever longer tables, so that each call may be the one that makes one.
TEST(RopeTables, AnyThreadMayAsk) {
  constexpr int kThreads = 8;
  RopeTables tables({}, 4);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (std::int64_t positions = 1; positions <= 4096; positions *= 2) {
        const kernels::RopeTable table = tables.get(core::Work(), positions);
        const std::int64_t last = positions - 1;  // the first frequency of every table is 1
        EXPECT_EQ(table.cos[last * 2], static_cast<float>(std::cos(static_cast<double>(last))));
        EXPECT_EQ(table.sin[last * 2], static_cast<float>(std::sin(static_cast<double>(last))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fm::model

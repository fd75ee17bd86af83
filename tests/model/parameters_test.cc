#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "model/units/decoder.h"
#include "model/units/initial_values.h"

namespace fm::model {
namespace {

DecoderConfig small_config(bool tied) {
  DecoderConfig config;
  config.vocab = 777;
  config.hidden = 96;
  config.ffn = 250;
  config.layers = 2;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 24;
  config.tied = tied;
  return config;
}

std::string listing(const core::ParamTable& table) {
  std::string out;
  for (const core::ParamEntry& entry : table.entries()) {
    out += entry.name;
    for (const std::int64_t dim : entry.shape) out += " " + std::to_string(dim);
    out += "\n";
  }
  return out;
}

TEST(ParameterTables, HaveHuggingFaceNamesAndShapes) {
  const Model model = make_decoder(small_config(false), {});
  EXPECT_EQ(listing(model.table(0)), "model.embed_tokens.weight 777 96\n");
  EXPECT_EQ(listing(model.table(2)),
            "model.layers.1.input_layernorm.weight 96\n"
            "model.layers.1.self_attn.q_proj.weight 144 96\n"
            "model.layers.1.self_attn.k_proj.weight 48 96\n"
            "model.layers.1.self_attn.v_proj.weight 48 96\n"
            "model.layers.1.self_attn.o_proj.weight 96 144\n"
            "model.layers.1.post_attention_layernorm.weight 96\n"
            "model.layers.1.mlp.gate_proj.weight 250 96\n"
            "model.layers.1.mlp.up_proj.weight 250 96\n"
            "model.layers.1.mlp.down_proj.weight 96 250\n");
  EXPECT_EQ(listing(model.table(3)), "model.norm.weight 96\nlm_head.weight 777 96\n");
  EXPECT_EQ(model.head->tied_params(), nullptr);
}

TEST(ParameterTables, TiedHeadHasNoMatrixOfItsOwn) {
  const Model model = make_decoder(small_config(true), {});
  EXPECT_EQ(listing(model.table(3)), "model.norm.weight 96\n");
  ASSERT_NE(model.head->tied_params(), nullptr);
  EXPECT_EQ(listing(*model.head->tied_params()), "model.embed_tokens.weight 777 96\n");
  EXPECT_TRUE(model.tied);
}

TEST(ParameterTables, ExemptKindsComeLast) {
  const Model model = make_decoder(small_config(false),
                                   {.no_decay = {.norm = true, .bias = true, .embedding = true}});
  EXPECT_EQ(model.table(1).at(0).name, "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(model.table(1).at(7).name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(model.table(0).decayed(), core::Elements(0));
  EXPECT_EQ(model.table(3).decayed(), core::Elements(0));
}

core::ParamEntry entry(const char* name, core::ParamKind kind) {
  return {name, {1000}, kind, core::Elements(0), core::Elements(1000)};
}

TEST(InitParameter, NormsAreOnes) {
  std::vector<float> out(5, 0.0F);
  init_parameter(entry("model.norm.weight", core::ParamKind::kNorm), 1, 0.02, core::Elements(7),
                 out);
  EXPECT_EQ(out, std::vector<float>(5, 1.0F));
}

TEST(InitParameter, SliceEqualsTheWhole) {
  const core::ParamEntry at = entry("model.embed_tokens.weight", core::ParamKind::kEmbedding);
  std::vector<float> whole(1000);
  init_parameter(at, 3407, 0.02, core::Elements(0), whole);
  for (const std::size_t first : {0UL, 1UL, 2UL, 3UL, 498UL}) {
    std::vector<float> slice(13);
    init_parameter(at, 3407, 0.02, core::Elements(static_cast<std::int64_t>(first)), slice);
    EXPECT_TRUE(
        std::equal(slice.begin(), slice.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)))
        << first;
  }
}

// The first two blocks, recomputed with Python's integers and math module: key = FNV-1a of the
// name (seed 0 mixes nothing in) = 0xa88fd795d5c6d156; words w0 .. w3 = philox4x32-10(key, block),
// checked against Random123's known answers; u = ((w >> 8) + 1) / 2^24; the values are
// 0.02 sqrt(-2 ln u0) {cos, sin}(2 pi u1), then the same of u2 and u3.
TEST(InitParameter, EqualsPhiloxAndBoxMullerDoneElsewhere) {
  const std::vector<float> expected = {-0x1.fe308p-8F, 0x1.ad2ec4p-6F,  -0x1.84c17cp-10F,
                                       -0x1.fa3dap-6F, -0x1.217ebcp-7F, 0x1.023e9p-7F,
                                       0x1.a7928ep-8F, -0x1.271d02p-5F};
  std::vector<float> out(8);
  init_parameter(entry("model.embed_tokens.weight", core::ParamKind::kEmbedding), 0, 0.02,
                 core::Elements(0), out);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(out[i], expected[i]) << i;
}

// Where the fast numbers are in doubt too: a million meet some. The formula, with libm.
TEST(InitParameter, EveryElementHasTheBitsOfLibm) {
  std::vector<float> out(1'000'003);
  const core::ParamEntry at = entry("lm_head.weight", core::ParamKind::kEmbedding);
  init_parameter(at, 11, 0.02, core::Elements(1), out);
  const std::uint64_t key = core::stream_key(11, at.name);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const core::PhiloxBlock words = core::philox(key, (i + 1) / 4);
    const std::size_t pair = (i + 1) % 4 / 2 * 2;
    const double radius = std::sqrt(-2.0 * std::log(double{core::uniform_of(words[pair])}));
    const double angle = 2.0 * std::numbers::pi * double{core::uniform_of(words[pair + 1])};
    const double turned = radius * ((i + 1) % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_EQ(out[i], static_cast<float>(turned * 0.02)) << i;
  }
}

TEST(InitParameter, IsNormalWithTheGivenRange) {
  std::vector<float> out(400'000);
  init_parameter(entry("lm_head.weight", core::ParamKind::kEmbedding), 7, 0.5, core::Elements(0),
                 out);
  double moments[4] = {};
  double neighbours = 0.0;
  std::int64_t within = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double z = static_cast<double>(out[i]) / 0.5;
    for (int power = 0; power < 4; ++power) moments[power] += std::pow(z, power + 1);
    within += std::abs(z) < 1.0;
    if (i > 0) neighbours += z * static_cast<double>(out[i - 1]) / 0.5;
  }
  const auto n = static_cast<double>(out.size());
  const double sigma = 1.0 / std::sqrt(n);  // 0.0016; five of them are allowed, scaled by moment
  EXPECT_NEAR(moments[0] / n, 0.0, 5.0 * sigma);
  EXPECT_NEAR(moments[1] / n, 1.0, 5.0 * sigma * std::sqrt(2.0));
  EXPECT_NEAR(moments[2] / n, 0.0, 5.0 * sigma * std::sqrt(15.0));
  EXPECT_NEAR(moments[3] / n, 3.0, 5.0 * sigma * std::sqrt(96.0));
  EXPECT_NEAR(neighbours / n, 0.0, 5.0 * sigma);
  EXPECT_NEAR(static_cast<double>(within) / n, 0.682689, 5.0 * sigma * 0.4654);
}

TEST(InitParameter, DependsOnSeedAndNameOnly) {
  std::vector<float> a(100), b(100), c(100), d(100);
  const auto at = core::Elements(0);
  init_parameter(entry("x", core::ParamKind::kMatrix), 1, 0.02, at, a);
  init_parameter(entry("x", core::ParamKind::kEmbedding), 1, 0.02, at, b);
  init_parameter(entry("y", core::ParamKind::kMatrix), 1, 0.02, at, c);
  init_parameter(entry("x", core::ParamKind::kMatrix), 2, 0.02, at, d);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
}

}  // namespace
}  // namespace fm::model

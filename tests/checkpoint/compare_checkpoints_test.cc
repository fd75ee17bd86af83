// Two states or models, number by number. Expected values come by hand.
#include "checkpoint/compare_checkpoints.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors_plan.h"
#include "core/check.h"
#include "core/text.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/damage.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class T>
ComparedTensor tensor_of(const std::string& dtype, const std::vector<T>& values) {
  return {.dtype = dtype,
          .shape = {static_cast<std::int64_t>(values.size())},
          .bytes = std::as_bytes(std::span(values))};
}

TensorDifference between(const std::vector<float>& a, const std::vector<float>& b,
                         double atol = 0) {
  return difference_of(tensor_of("F32", a), tensor_of("F32", b), atol);
}

TEST(TensorDifferences, OfOneTypeAreDifferencesOfBits) {
  EXPECT_EQ(between({1, 2, kNan}, {1, 2, kNan}).elements, 0);
  EXPECT_EQ(between({0.0F}, {-0.0F}).elements, 1);
  EXPECT_EQ(between({0.0F}, {-0.0F}).max_ulp, 0);
  const TensorDifference found = between({1, 2, 3, 4}, {1, std::nextafter(2.0F, 3.0F), 3, 4.5F});
  EXPECT_EQ(found.elements, 2);
  EXPECT_EQ(found.first, 1);
  EXPECT_EQ(found.max_abs, 0.5);
  EXPECT_EQ(found.max_abs_at, 3);
  EXPECT_EQ(found.max_ulp, 0x1p20);  // 4 to 4.5: an eighth of 2^23 numbers
  EXPECT_EQ(between({-1e-45F}, {1e-45F}).max_ulp, 2);
}

TEST(TensorDifferences, WithinAtolAreNone) {
  EXPECT_EQ(between({1, 2}, {1.25F, 2.5F}, 0.25).elements, 1);
  EXPECT_EQ(between({1, 2}, {1.25F, 2.5F}, 0.5).elements, 0);
  EXPECT_EQ(between({1}, {kNan}, 1e30).elements, 1);
  EXPECT_TRUE(std::isinf(between({1}, {kNan}).max_abs));
}

// 1 + 2^-8 lies between two neighbours of bf16, 1 and 1 + 2^-7.
TEST(TensorDifferences, OfTwoTypesAreInUnitsOfTheNarrowerOne) {
  const std::vector<float> wide = {1 + 0x1p-8F, 1, 3};
  const std::vector<std::uint16_t> rounded = {0x3F80, 0x3F80, 0x4040};
  const TensorDifference found =
      difference_of(tensor_of("F32", wide), tensor_of("BF16", rounded), 0);
  EXPECT_EQ(found.elements, 1);
  EXPECT_EQ(found.max_abs, 0x1p-8);
  EXPECT_EQ(found.max_ulp, 0.5);
}

TEST(TensorDifferences, OfLongTensorsAreWhereTheyAre) {
  std::vector<float> a(600'000, 1.0F);
  std::vector<float> b = a;
  b[524'289] = 2;
  b[262'144] = 1.5F;
  const TensorDifference found = between(a, b);
  EXPECT_EQ(found.elements, 2);
  EXPECT_EQ(found.first, 262'144);
  EXPECT_EQ(found.max_abs_at, 524'289);
}

TEST(TensorDifferences, OfOtherTypesAreCounted) {
  const TensorDifference found = difference_of(tensor_of<std::int64_t>("I64", {1, 2, 3}),
                                               tensor_of<std::int64_t>("I64", {1, 5, 4}), 0);
  EXPECT_EQ(found.elements, 2);
  EXPECT_EQ(found.first, 1);
  EXPECT_EQ(found.max_abs, -1);
}

// "weights a 15, moments b absent"
std::string shown(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const DifferingTensor& tensor : comparison.differing) {
    parts.push_back(core::concat(tensor.role, " ", tensor.name, " ",
                                 tensor.problem.empty()
                                     ? std::to_string(tensor.numbers.elements)
                                     : tensor.problem.substr(0, tensor.problem.find(' '))));
  }
  for (const DifferingFact& fact : comparison.facts) {
    parts.push_back(
        core::concat(fact.counts ? "state " : "note ", fact.key, " ", fact.a, " ", fact.b));
  }
  return core::join(parts, ", ");
}

class Compare : public ::testing::Test {
 protected:
  // A Hugging Face folder with the weights of testing::state_value.
  fs::path model(const std::string& name, std::int64_t step) const {
    fs::create_directories(folder_.path() / name);
    std::vector<float> a(15);
    std::vector<float> b(7);
    for (std::size_t i = 0; i < 15; ++i) {
      a[i] = testing::state_value(step, 0, 0, static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < 7; ++i) {
      b[i] = testing::state_value(step, 0, 1, static_cast<std::int64_t>(i));
    }
    const std::vector<core::TensorSlice> slices = {
        core::slice_in_memory("a", {5, 3}, core::Elements(0), a.data(), core::Elements(15)),
        core::slice_in_memory("b", {7}, core::Elements(0), b.data(), core::Elements(7)),
        core::slice_in_memory("empty", {0, 4}, core::Elements(0), nullptr, core::Elements(0))};
    write_safetensors((folder_.path() / name / kWeightsFile).string(), slices);
    return folder_.path() / name;
  }
  fs::path saved(const std::string& name, std::int64_t step, int ranks) const {
    EXPECT_TRUE(testing::save_state(folder_.path() / name, step, ranks).durable);
    return folder_.path() / name / core::concat("global_step", step);
  }
  testing::ScratchFolder folder_;
};

TEST_F(Compare, TheSameStateOfOtherRanksIsTheSame) {
  const Comparison found = compare_checkpoints(saved("x", 5, 1), saved("y", 5, 3), 0);
  EXPECT_EQ(shown(found), "");
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.tensors, 5);
  EXPECT_EQ(found.elements, 44);
}

TEST_F(Compare, OtherStepsDifferInAllTensorsAndInTheState) {
  const Comparison found = compare_checkpoints(saved("x", 5, 1), saved("x", 6, 1), 0);
  EXPECT_EQ(shown(found), "moments a 15, moments b 7, weights a 15, weights b 7, state step 5 6");
  EXPECT_FALSE(found.same());
  EXPECT_EQ(found.differing[0].numbers.max_abs, 0.125);
  const Comparison near =
      compare_checkpoints(folder_.path() / "x" / "global_step5", folder_.path() / "x", 0.125);
  EXPECT_EQ(shown(near), "state step 5 6") << "an output directory stands for its newest";
}

TEST_F(Compare, ACheckpointAndAModelAreComparedByTheirWeights) {
  const Comparison found = compare_checkpoints(saved("x", 5, 2), model("hf", 5), 0);
  EXPECT_EQ(shown(found), "");
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.tensors, 3);
  EXPECT_EQ(found.notes.size(), 2U) << "moments, state";
  const Comparison other = compare_checkpoints(model("hf6", 6), folder_.path() / "x", 0);
  EXPECT_EQ(shown(other), "weights a 15, weights b 7");
}

TEST_F(Compare, ModelsWithoutAllTensorsDiffer) {
  const fs::path whole = model("hf", 5);
  const fs::path part = folder_.path() / "part.safetensors";
  std::vector<float> numbers(15, 1);
  const std::vector<core::TensorSlice> slices = {
      core::slice_in_memory("a", {15}, core::Elements(0), numbers.data(), core::Elements(15))};
  write_safetensors(part.string(), slices);
  EXPECT_EQ(shown(compare_checkpoints(whole, part, 0)),
            "weights a the, weights b only, weights empty only");
}

TEST_F(Compare, WhatIsNoModelIsRefused) {
  const auto said = testing::message_of<core::UserError>(
      11, [&] { compare_checkpoints(folder_.path(), folder_.path(), 0); });
  EXPECT_NE(said.find("a Hugging Face folder must hold"), std::string::npos) << said;
  const fs::path broken = saved("x", 5, 1);
  testing::flip_byte(broken / "state.json", 3);
  EXPECT_NE(
      testing::message_of<core::MachineError>(12, [&] { compare_checkpoints(broken, broken, 0); })
          .find("state.json"),
      std::string::npos);
}

}  // namespace
}  // namespace fm::checkpoint

// Thousands of damaged files: the reader refuses with its own error, or what it accepts obeys the
// format (checked here from the parsed result alone) and is what the DOM of the header says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/safetensors_parse.h"
#include "core/check.h"
#include "tests/checkpoint/mutated.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/mutation_rounds.h"

namespace fm::checkpoint {
namespace {

void expect_sound(const SafetensorsHeader& header, const std::string& file) {
  core::Bytes at = header.data_begin;
  const nlohmann::json dom =
      nlohmann::json::parse(file.substr(8, static_cast<std::size_t>(at.count()) - 8));
  const std::size_t metadata = dom.contains("__metadata__") ? 1 : 0;
  ASSERT_EQ(dom.size(), header.tensors.size() + metadata);
  for (const StoredTensor& tensor : header.tensors) {
    ASSERT_EQ(tensor.begin, at) << file;
    at = tensor.end;
    auto bits = static_cast<std::int64_t>(kStoredTypes[rank_of_type(tensor.dtype)].bits);
    for (const std::int64_t size : tensor.shape) bits *= size;
    ASSERT_EQ((tensor.end - tensor.begin).count() * 8, bits) << file;
    const nlohmann::json& entry = dom.at(tensor.name);
    ASSERT_EQ(entry.at("dtype"), tensor.dtype);
    ASSERT_EQ(entry.at("shape").get<std::vector<std::int64_t>>(), tensor.shape);
    ASSERT_EQ(entry.at("data_offsets").at(0), (tensor.begin - header.data_begin).count());
  }
  ASSERT_EQ(at.count(), static_cast<std::int64_t>(file.size())) << file;
}

constexpr std::string_view kLetters = "{}[]\":,0123456789eE-. \\\xFF\nFBUI";

TEST(SafetensorsMutation, NothingUnsoundIsAccepted) {
  const std::string seeds[] = {
      testing::file_of(
          "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],"
          "\"data_offsets\":[0,24]},\"b\":{\"dtype\":\"BF16\",\"shape\":[],"
          "\"data_offsets\":[24,26]}}  ",
          26),
      testing::file_of(
          "{\"x\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]},\"e\":{\"shape\":"
          "[0],\"dtype\":\"I64\",\"data_offsets\":[1,1]}}",
          1),
  };
  std::mt19937 random(20240607);
  int accepted = 0;
  const int rounds = testing::mutation_rounds(50'000);
  for (int round = 0; round < rounds; ++round) {
    std::string file = testing::mutated(seeds[random() % 2], kLetters, random);
    // Half of them keep a right length, so that the mutation reaches the rules behind it.
    if (random() % 2 == 0 && file.size() >= 8) {
      const std::size_t close = file.rfind('}');
      if (close != std::string::npos && close >= 8) {
        file.replace(0, 8, testing::length_bytes(close - 7));
      }
    }
    try {
      const SafetensorsHeader header = parse_safetensors(std::as_bytes(std::span(file)), "f");
      expect_sound(header, file);
      ++accepted;
    } catch (const core::UserError& error) {
      ASSERT_EQ(error.code(), core::ExitCode::kDataError);
    }
  }
  EXPECT_GT(accepted, rounds / 100);
}

}  // namespace
}  // namespace fm::checkpoint

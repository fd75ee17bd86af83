// DeepSpeed configurations of public projects as they stand (public_configs.jsonl has their
// sources), with what each must mean: the numbers were read from the files by another reader.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

using Json = nlohmann::json;

std::vector<Json> configurations() {
  std::vector<Json> rows;
  std::ifstream file(FM_PUBLIC_CONFIGS);
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

void expect_meaning(const Json& row, const engine::TrainOptions& options) {
  EXPECT_EQ(options.zero_stage, row["stage"]);
  EXPECT_EQ(options.optimizer.lr, row["lr"]);
  EXPECT_EQ(options.model_parallel_size, row.value("tensor_parallel", 1));
  const Json& rows = row["micro_batch"];
  if (!rows.is_null()) {
    EXPECT_EQ(options.batch.micro_batch, rows.get<std::int64_t>());
  }
  const Json& scheduler = row["scheduler"];
  if (!scheduler.is_null()) {
    EXPECT_EQ(options.scheduler.rule->name, scheduler.get<std::string>());
  }
}

TEST(PublicConfigs, LoadWithTheirMeaningOrAreRefusedByName) {
  int loaded = 0;
  int refused = 0;
  for (const Json& row : configurations()) {
    SCOPED_TRACE(row["source"].get<std::string>());
    const std::string text = row["text"];
    if (!row.contains("refused")) {
      const engine::TrainOptions options = read(text);
      expect_meaning(row, options);
      EXPECT_EQ(options.element == core::DType::kBF16, row["bf16"].get<bool>());
      EXPECT_EQ(options.element == core::DType::kF16, row.value("fp16", false));
      ++loaded;
      continue;
    }
    const std::string said = refusal(text);
    for (const Json& reason : row["refused"]) {
      EXPECT_TRUE(holds(said, reason.get<std::string>())) << said;
    }
    ++refused;
  }
  EXPECT_EQ(loaded, 76);
  EXPECT_EQ(refused, 9);
}

}  // namespace
}  // namespace fm::cli

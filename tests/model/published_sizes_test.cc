// The numbers of parameters of published models, as transformers counts them
// (tests/oracle/published_counts.py).
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>

#include "model/opened_model.h"

namespace fm::model {
namespace {

std::int64_t parameters_of(const Model& model) {
  std::set<std::string> names;  // a tied matrix counts once
  std::int64_t sum = 0;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    for (const core::ParamEntry& entry : model.table(unit).entries()) {
      if (names.insert(entry.name).second) sum += entry.numel.count();
    }
  }
  return sum;
}

TEST(PublishedSizes, GiveTheParametersThatTransformersCounts) {
  std::ifstream file(FM_PUBLISHED_SIZES);
  const std::string path = testing::TempDir() + "/fm_published.json";
  std::int64_t expected = 0;
  int models = 0;
  std::string name, text;
  while (file >> expected >> name && std::getline(file, text)) {
    std::ofstream(path) << text;
    EXPECT_EQ(parameters_of(open_model(path, {}).model), expected) << name;
    ++models;
  }
  EXPECT_EQ(models, 35);
}

}  // namespace
}  // namespace fm::model

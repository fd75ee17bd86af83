// PREFIX.labels beside a Megatron dataset, written here number by number.
#include "text/data/other_labels.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/written_numbers.h"

namespace fm::data {
namespace {

using testing::bytes_of_all;
using Numbers = std::vector<std::int64_t>;

class OtherLabelsFile : public ::testing::Test {
 protected:
  std::string write(const Numbers& numbers) const {
    return folder_.write("d.labels", bytes_of_all(numbers, 8));
  }
  // What is wrong with a file for 10 ids of a vocabulary of 100.
  std::string refusal(const Numbers& numbers) const {
    return testing::message_of<core::UserError>(11, [&] { OtherLabels(write(numbers), 10, 100); });
  }

  testing::ScratchFolder folder_;
};

TEST_F(OtherLabelsFile, PutsThoseOfTheAskedPlaces) {
  const OtherLabels labels(write({1, 50, 4, 60, 9, 99}), 10, 100);
  std::vector<std::int32_t> row(3, 7);
  labels.put(2, row);
  EXPECT_EQ(row, (std::vector<std::int32_t>{7, 7, 60}));
  row.assign(10, 0);
  labels.put(0, row);
  EXPECT_EQ(row, (std::vector<std::int32_t>{0, 50, 0, 0, 60, 0, 0, 0, 0, 99}));
  row.assign(4, 7);
  labels.put(5, row);
  EXPECT_EQ(row, (std::vector<std::int32_t>{7, 7, 7, 7}));
}

TEST_F(OtherLabelsFile, RefusesWhatIsNoSuchFile) {
  EXPECT_NE(refusal({1}).find("multiple of 16"), std::string::npos);
  EXPECT_NE(refusal({4, 1, 4, 1}).find("place 4 behind 4"), std::string::npos);
  EXPECT_NE(refusal({10, 1}).find("place 10 behind -1, 10 ids"), std::string::npos);
  EXPECT_NE(refusal({-1, 1}).find("place -1"), std::string::npos);
  EXPECT_NE(refusal({3, 100}).find("label 100, vocab_size=100"), std::string::npos);
  EXPECT_NE(refusal({3, -100}).find("label -100"), std::string::npos);
}

}  // namespace
}  // namespace fm::data

#include <gtest/gtest.h>

#include <cstdint>

#include "core/text.h"

namespace fm::core {
namespace {

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "bad line"), "0 bad lines");
  EXPECT_EQ(counted(std::int64_t{2}, "document"), "2 documents");
  EXPECT_EQ(counted(std::size_t{1}, "file"), "1 file");
}

}  // namespace
}  // namespace fm::core

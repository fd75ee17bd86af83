#include "offload/insert_offload.h"

#include <gtest/gtest.h>

namespace fm::offload {
namespace {

TEST(InsertOffload, OnTheDeviceNothingMoves) {
  const pipeline::Program program = pipeline::parse("N u.0 p.0 u.1 p.1 O");
  EXPECT_EQ(insert_offload(program, core::Tier::kDevice), program);
}

TEST(InsertOffload, AnUpdateElsewhereIsFetchedBeforeAndStoredAfter) {
  for (const core::Tier tier : {core::Tier::kHost, core::Tier::kNvme}) {
    EXPECT_EQ(print(insert_offload(pipeline::parse("N u.0 p.0 u.1 p.1 O"), tier)),
              "N f.0 u.0 s.0 p.0 f.1 u.1 s.1 p.1 O ");
  }
}

}  // namespace
}  // namespace fm::offload

#include <gtest/gtest.h>

#include "offload/tier.h"

namespace fm::offload {
namespace {

TEST(InsertOffload, OnTheDeviceNothingMoves) {
  const pipeline::Program program = pipeline::parse("N u.0 p.0 u.1 p.1 O");
  EXPECT_EQ(insert_offload(program, Tier::kDevice), program);
}

TEST(InsertOffload, AnUpdateElsewhereIsFetchedBeforeAndStoredAfter) {
  for (const Tier tier : {Tier::kHost, Tier::kNvme}) {
    EXPECT_EQ(print(insert_offload(pipeline::parse("N u.0 p.0 u.1 p.1 O"), tier)),
              "N f.0 u.0 s.0 p.0 f.1 u.1 s.1 p.1 O ");
  }
}

}  // namespace
}  // namespace fm::offload

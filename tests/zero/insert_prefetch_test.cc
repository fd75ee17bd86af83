// Programs before and after the pass, by hand: a gather is posted where the window lets it.
#include "zero/insert_prefetch.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace fm::zero {
namespace {

using core::Elements;

// Embedding 0 and blocks 1 and 2 of 10 elements each, head 3 of 20.
std::string with_window(const std::string& program, std::int64_t window) {
  const pipeline::Placement units = pipeline::split_evenly(2, {}, false);
  const std::vector<Elements> sizes = {Elements(10), Elements(10), Elements(10), Elements(20)};
  return print(insert_prefetch(pipeline::parse(program), units, sizes, Elements(window)));
}

constexpr const char* kForward = "L0 g.0 F0.0 r.0 g.1 F0.1 r.1 g.2 F0.2 r.2 g.3 X0 r.3 R0.3 O ";

TEST(InsertPrefetch, WithoutAWindowAGatherStandsBeforeItsUse) {
  EXPECT_EQ(with_window(kForward, 0), kForward);
  EXPECT_EQ(with_window(kForward, 9), kForward);
}

TEST(InsertPrefetch, OneUnitAhead) {
  EXPECT_EQ(with_window(kForward, 10),
            "L0 g.0 g.1 F0.0 r.0 g.2 F0.1 r.1 F0.2 r.2 g.3 X0 r.3 R0.3 O ");
  EXPECT_EQ(with_window(kForward, 20),
            "L0 g.0 g.1 g.2 F0.0 r.0 F0.1 r.1 g.3 F0.2 r.2 X0 r.3 R0.3 O ");
}

TEST(InsertPrefetch, AWindowOfEverythingGathersAtOnce) {
  EXPECT_EQ(with_window(kForward, 1000),
            "L0 g.0 g.1 g.2 g.3 F0.0 r.0 F0.1 r.1 F0.2 r.2 X0 r.3 R0.3 O ");
}

TEST(InsertPrefetch, AUnitIsGatheredAgainOnlyBehindItsRelease) {
  EXPECT_EQ(with_window("L0 g.1 F0.1 r.1 L1 g.2 F0.2 r.2 g.1 F1.1 r.1 O ", 1000),
            "L0 g.1 g.2 F0.1 r.1 L1 g.1 F0.2 r.2 F1.1 r.1 O ");
  EXPECT_EQ(with_window("g.3 X0 r.3 R0.3 g.2 C0.2 B0.2 r.2 R0.2 g.1 C0.1 B0.1 r.1 R0.1 O ", 10),
            "g.3 g.2 X0 r.3 R0.3 g.1 C0.2 B0.2 r.2 R0.2 C0.1 B0.1 r.1 R0.1 O ");
}

TEST(InsertPrefetch, AProgramWithoutGathersIsUnchanged) {
  EXPECT_EQ(with_window("L0 F0.0 F0.1 F0.2 X0 O ", 1000), "L0 F0.0 F0.1 F0.2 X0 O ");
}

}  // namespace
}  // namespace fm::zero

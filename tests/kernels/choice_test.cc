// What is chosen for this CPU, and what overrides it.
#include <gtest/gtest.h>

#include <string>

#include "core/check.h"
#include "kernels/variants/variant.h"

namespace fm::kernels {
namespace {

TEST(ChosenVariant, IsTheWidestThatRunsHere) {
  const Variant* widest = nullptr;
  for (const auto& [variant, runs_here] : candidates()) {
    if (runs_here()) widest = variant;
  }
  EXPECT_EQ(&choose_variant(""), widest);
}

TEST(ChosenVariant, IsTheOneAskedFor) {
  for (const auto& [variant, runs_here] : candidates()) {
    if (!runs_here()) continue;
    EXPECT_EQ(&choose_variant(variant->name), variant);
  }
  try {
    choose_variant("sse9");
    FAIL() << "no refusal";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    EXPECT_NE(std::string(error.what()).find("(FME_SIMD=sse9)"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("baseline"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fm::kernels

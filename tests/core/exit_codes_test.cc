// The two classes, by the lists of the contract with schedulers (docs/exit-codes.md).
#include "core/exit_codes.h"

#include <gtest/gtest.h>

#include <set>

namespace fm::core {
namespace {

TEST(ExitCodes, OnlyFailuresOfMachinesPeersAndSignalsMayBeTriedAgain) {
  std::set<int> again;
  for (int code = -200; code <= 300; ++code) {
    if (may_try_again(code)) again.insert(code);
  }
  std::set<int> expected = {14, 20, 21, 26, 27, 75};
  for (int signal = 1; signal <= 64; ++signal) expected.insert(128 + signal);
  EXPECT_EQ(again, expected);
}

TEST(ExitCodes, PermanentOnesAreThoseThatASecondStartMeetsAgain) {
  std::set<int> permanent;
  for (const ExitCodeRow& row : exit_code_rows()) {
    if (row.kind == ExitClass::kPermanent) permanent.insert(row.code);
  }
  EXPECT_EQ(permanent, (std::set<int>{1, 10, 11, 12, 13, 22, 23, 25}));
}

}  // namespace
}  // namespace fm::core

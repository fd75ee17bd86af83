#include "core/check.h"

#include <gtest/gtest.h>

#include <functional>

namespace fm::core {
namespace {

// What `action` throws: its code and its message.
std::pair<ExitCode, std::string> thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ExitCode::kFinished, ""};
}

TEST(Check, UserErrorsExitWithTen) {
  const auto [code, message] =
      thrown_by([] { FM_USER_CHECK(1 == 2, "must be even; use 4 (value=", 3, ")"); });
  EXPECT_EQ(static_cast<int>(code), 10);
  EXPECT_EQ(message, "must be even; use 4 (value=3)");
  EXPECT_THROW(FM_USER_CHECK(false, "x"), UserError);
}

TEST(Check, DataErrorsExitWithEleven) {
  const auto [code, message] = thrown_by([] { FM_DATA_CHECK(false, "file"); });
  EXPECT_EQ(static_cast<int>(code), 11);
  EXPECT_THROW(FM_DATA_CHECK(false, "x"), UserError);
}

TEST(Check, DefectsNameConditionAndPlace) {
  const auto [code, message] = thrown_by([] { FM_CHECK(1 > 2, "slots ", 5); });
  EXPECT_EQ(static_cast<int>(code), 1);
  EXPECT_NE(message.find("slots 5 (1 > 2 at "), std::string::npos) << message;
  EXPECT_NE(message.find("check_test.cc:"), std::string::npos) << message;
  EXPECT_THROW(FM_CHECK(false, "x"), BugError);
}

TEST(Check, MachineErrorsKeepTheirCode) {
  const auto [code, message] =
      thrown_by([] { FM_MACHINE_CHECK(false, ExitCode::kPeerLost, "rank ", 3, " left"); });
  EXPECT_EQ(static_cast<int>(code), 20);
  EXPECT_EQ(message, "rank 3 left");
}

TEST(Check, WordsOfFilesNeitherCutAMessageNorSteerATerminal) {
  const std::string key("a\0b\x1b[2Jc\x7f", 9);
  const auto [code, message] =
      thrown_by([&] { FM_USER_CHECK(false, "key '", key, "'\n\t\u00e9"); });
  EXPECT_EQ(message, "key 'a\\u0000b\\u001b[2Jc\\u007f'\n\t\u00e9");
}

TEST(Check, NothingHappensWhenTheConditionHolds) {
  EXPECT_NO_THROW({
    FM_USER_CHECK(true, "x");
    FM_DATA_CHECK(true, "x");
    FM_CHECK(true, "x");
    FM_MACHINE_CHECK(true, ExitCode::kHang, "x");
  });
}

}  // namespace
}  // namespace fm::core

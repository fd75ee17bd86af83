// What a refused input says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/check.h"

namespace fm::cli {

// The message of the UserError that `body` throws; "accepted" when it throws none.
inline std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    return error.what();
  }
  return "accepted";
}

inline ::testing::AssertionResult holds(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << part << "\" is not in: " << text;
}

}  // namespace fm::cli

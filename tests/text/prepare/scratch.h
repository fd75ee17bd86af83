// What the tests of this folder share: a folder of their own, and messages.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "core/check.h"

namespace fm::prepare {

class Scratch : public testing::Test {
 protected:
  Scratch()
      : folder_(std::filesystem::temp_directory_path() /
                ("prepare_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Scratch() override { std::filesystem::remove_all(folder_); }

  // Returns the path.
  std::string write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  std::filesystem::path folder_;
};

// What a refusal says; "accepted" where there is none.
inline std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::UserError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace fm::prepare

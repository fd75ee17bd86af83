#include "core/mapped_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "core/check.h"

namespace fm::core {
namespace {

std::string written(const std::string& name, std::string_view content) {
  const std::string path = ::testing::TempDir() + "fm_mapped_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const MappedFile file(written("bytes", std::string_view("a\0b\n", 4)));
  EXPECT_EQ(file.text(), std::string_view("a\0b\n", 4));
  EXPECT_EQ(file.bytes().size(), 4U);
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  EXPECT_TRUE(MappedFile(written("empty", "")).bytes().empty());
}

TEST(MappedFile, MoveLeavesNothingBehind) {
  MappedFile source(written("moved", "hello"));
  const MappedFile target(std::move(source));
  EXPECT_EQ(target.text(), "hello");
  EXPECT_TRUE(source.bytes().empty());  // NOLINT(bugprone-use-after-move): the promise under test
}

TEST(MappedFile, WhatIsMissingOrNoFileIsADataErrorWithThePath) {
  for (const std::string& path : {::testing::TempDir() + "fm_no_such_file", ::testing::TempDir()}) {
    try {
      const MappedFile file(path);
      FAIL() << path;
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kDataError);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

TEST(MappedFile, AFolderIsToldApartFromAnUnreadableFile) {
  try {
    const MappedFile file(::testing::TempDir());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("a regular file is required"), std::string::npos);
  }
}

}  // namespace
}  // namespace fm::core

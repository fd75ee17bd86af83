// What a file is read as.
#include <gtest/gtest.h>

#include "core/check.h"
#include "data/sample_source.h"
#include "tests/data/scratch_folder.h"

namespace fm::data {
namespace {

TEST(FormatOf, FollowsTheEndOfTheNameInAnyCase) {
  for (const char* const path : {"a/b.bin", "T.BIN", "x.i32", "X.I32", "a.jsonl.bin"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kTokensI32) << path;
  }
  for (const char* const path : {"a.jsonl", "A.JSONL", "a.json", "a.bin.Json"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kJsonl) << path;
  }
}

TEST(FormatOf, AFormatThatWasNamedWins) {
  EXPECT_EQ(format_of("a.bin", DataFormat::kJsonl), DataFormat::kJsonl);
  EXPECT_EQ(format_of("a.txt", DataFormat::kTokensI32), DataFormat::kTokensI32);
}

TEST(FormatOf, ANameThatSaysNothingIsRefused) {
  for (const char* const path : {"a.txt", "bin", "", "a.jsonl/x"}) {
    const auto said =
        testing::message_of<core::UserError>(11, [&] { format_of(path, DataFormat::kAuto); });
    EXPECT_NE(said.find("--data_format"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace fm::data

// What a file is read as.
#include <gtest/gtest.h>

#include "core/check.h"
#include "data/sample_source.h"
#include "tests/data/scratch_folder.h"

namespace fm::data {
namespace {

TEST(FormatOf, FollowsTheEndOfTheNameInAnyCase) {
  for (const char* const path : {"a/b.bin", "T.BIN", "x.i32", "X.I32", "a.jsonl.bin"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kTokens) << path;
  }
  for (const char* const path : {"a.jsonl", "A.JSONL", "a.json", "a.bin.Json"}) {
    EXPECT_EQ(format_of(path, DataFormat::kAuto), DataFormat::kJsonl) << path;
  }
}

TEST(FormatOf, AFormatThatWasNamedWins) {
  EXPECT_EQ(format_of("a.bin", DataFormat::kJsonl), DataFormat::kJsonl);
  EXPECT_EQ(format_of("a.txt", DataFormat::kTokens), DataFormat::kTokens);
}

TEST(FormatOf, ANameThatSaysNothingIsRefused) {
  const testing::ScratchFolder scratch;
  for (const char* const name : {"a.txt", "bin", "a.jsonl/x"}) {
    const std::string path = (scratch.path() / name).string();
    std::filesystem::create_directories(path);
    const auto said =
        testing::message_of<core::UserError>(10, [&] { format_of(path, DataFormat::kAuto); });
    EXPECT_NE(said.find("add --data_format jsonl"), std::string::npos) << said;
  }
}

// Such as the name of a data set of Hugging Face.
TEST(FormatOf, ANameThatLeadsNowhereIsRefusedAsSuch) {
  for (const char* const path : {"wikitext", ""}) {
    const auto said =
        testing::message_of<core::UserError>(11, [&] { format_of(path, DataFormat::kAuto); });
    EXPECT_EQ(said,
              std::string("data_path must name an existing file; check the path (data_path=") +
                  path + ")");
  }
}

}  // namespace
}  // namespace fm::data

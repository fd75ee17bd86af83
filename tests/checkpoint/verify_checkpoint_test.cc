// Every byte of a checkpoint is looked at, and what is damaged has a name.
#include "checkpoint/verify_checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "checkpoint/direct_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/survey.h"
#include "core/crc32c.h"
#include "core/text.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/damage.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

class Verify : public ::testing::Test {
 protected:
  Verify() { EXPECT_TRUE(testing::save_state(folder_.path(), 5, 3).durable); }
  fs::path at() const { return folder_.path() / "global_step5"; }
  std::string damages(int threads = 1) const {
    return core::join(verify_checkpoint(at(), threads).damages, "\n");
  }
  void expect_damage(const std::string& part) const {
    EXPECT_NE(damages().find(part), std::string::npos) << damages();
  }
  // Where the data of a file begins.
  std::int64_t data_of(const std::string& file) const {
    for (const ManifestFile& each : open_manifest(at()).files) {
      if (each.file == file) return each.header_bytes.count();
    }
    return -1;
  }
  testing::ScratchFolder folder_;
};

TEST_F(Verify, AWholeCheckpointHasNoDamageAndAllOfItIsRead) {
  for (const int threads : {1, 4}) {
    const VerifiedCheckpoint verified = verify_checkpoint(at(), threads);
    EXPECT_EQ(core::join(verified.damages, "\n"), "");
    EXPECT_EQ(verified.step, 5);
    EXPECT_EQ(verified.files, 2);
    const auto manifest = static_cast<std::int64_t>(fs::file_size(at() / kManifestName));
    EXPECT_EQ(verified.bytes.count(), bytes_below(at()).count() - manifest);
  }
}

TEST_F(Verify, AChangeOfAnyByteIsFoundAndItsFileNamed) {
  for (const auto& entry : fs::directory_iterator(at())) {
    const auto size = static_cast<std::int64_t>(fs::file_size(entry.path()));
    for (std::int64_t byte = 0; byte < size; ++byte) {
      testing::flip_byte(entry.path(), byte);
      const std::string found = damages();
      ASSERT_NE(found.find(entry.path().filename().string() + ": "), std::string::npos)
          << entry.path() << " byte " << byte << ": " << found;
      testing::flip_byte(entry.path(), byte);
    }
  }
  EXPECT_EQ(damages(), "");
}

// Three ranks: elements [2, 4) of b are those of the second.
TEST_F(Verify, TensorAndElementsAreNamed) {
  const std::int64_t a_bytes = 4 * 15;
  testing::flip_byte(at() / "moments.safetensors", data_of("moments.safetensors") + a_bytes + 13);
  expect_damage("moments.safetensors: tensor b, elements [2, 4) of shape [7], bytes [");
  testing::flip_byte(at() / "weights.safetensors", data_of("weights.safetensors"));
  expect_damage("weights.safetensors: tensor a, elements [0, 5) of shape [5, 3], bytes [");
  EXPECT_EQ(verify_checkpoint(at(), 2).damages.size(), 2U) << damages();
}

TEST_F(Verify, FilesThatAreNoneAreNamed) {
  const fs::path weights = at() / "weights.safetensors";
  const fs::path aside = folder_.path() / "aside";
  fs::rename(weights, aside);
  expect_damage("weights.safetensors: the file must be readable (No such file");
  ASSERT_EQ(::mkfifo(weights.c_str(), 0600), 0);
  expect_damage("weights.safetensors: the file must be readable (it is no regular file)");
  fs::remove(weights);
  fs::create_directory(weights);
  expect_damage("weights.safetensors: the file must be readable (");
  fs::remove(weights);
  fs::rename(aside, weights);
  fs::resize_file(weights, fs::file_size(weights) - 1);
  expect_damage("weights.safetensors: the file must have its full size");
  fs::remove(at() / kStateName);
  expect_damage("state.json: the file must exist");
}

TEST_F(Verify, ACopyUnderAnotherNameIsNoCheckpointOfThatStep) {
  fs::rename(at(), folder_.path() / "global_step9");
  const auto verified = verify_checkpoint(folder_.path() / "global_step9", 1);
  ASSERT_EQ(verified.damages.size(), 1U);
  EXPECT_NE(verified.damages[0].find("(it is step 5)"), std::string::npos);
}

// Offsets and lengths of any alignment, over the end of a block.
TEST(DirectFile, ReadsWhatIsThere) {
  const testing::ScratchFolder folder;
  std::string text(3 * 4096 + 77, ' ');
  for (std::size_t at = 0; at < text.size(); ++at) text[at] = static_cast<char>(at * 31 % 251);
  DirectFile file(folder.write("bytes", text));
  EXPECT_EQ(file.size(), std::ssize(text));
  const std::int64_t all = file.size();
  for (const auto& [offset, bytes] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, all}, {1, 1}, {4095, 2}, {4096, 4096}, {all - 1, 1}, {5, 8192}, {all, 0}}) {
    const auto got = file.read(offset, bytes);
    const std::string expected =
        text.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
    EXPECT_TRUE(std::ranges::equal(got, std::as_bytes(std::span(expected)))) << offset;
    EXPECT_EQ(file.crc_of(offset, bytes), core::crc32c(expected));
  }
  EXPECT_NE(testing::message_of<core::MachineError>(12, [&] { file.read(all - 1, 2); })
                .find("the file ends before"),
            std::string::npos);
}

}  // namespace
}  // namespace fm::checkpoint

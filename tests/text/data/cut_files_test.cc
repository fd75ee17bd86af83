// Mapped data that is cut between a look at its file and the read: no signal, but exit code 11 with
// the name. The name is taken away first, so that no look at the file can find the cut.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/written_numbers.h"
#include "text/data/formats/mds.h"
#include "text/data/formats/megatron.h"
#include "text/data/formats/token_files.h"

namespace fm::data {
namespace {

using testing::bytes_of;
using testing::bytes_of_all;
using testing::Ids;

constexpr std::int64_t kIds = 100'000;  // many pages, of indexes too

Ids numbers() {
  Ids ids(kIds);
  for (std::size_t at = 0; at < ids.size(); ++at) ids[at] = static_cast<std::int32_t>(at % 97 + 1);
  return ids;
}

class CutFiles : public ::testing::Test {
 protected:
  // Cuts the file, then reads the whole stream. Returns what is said.
  std::string say_of_cut(const std::string& path, const StreamPtr& stream) const {
    cut(path);
    return testing::message_of<core::UserError>(11, [&] {
      Ids out(kIds);
      stream->read(0, out);
      stream->read_labels(0, out);
      for (std::int64_t at = 0; at <= stream->documents(); ++at) stream->begin_of(at);
    });
  }
  void expect_named(const std::string& path, const StreamPtr& stream) const {
    const std::string said = say_of_cut(path, stream);
    EXPECT_TRUE(said.starts_with(path + ": the file must stay as it is while a run reads it"))
        << said;
  }
  static void cut(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::unlink(path.c_str()), 0);
    ASSERT_EQ(::ftruncate(fd, 5000), 0);
    ::close(fd);
  }
  // A Megatron dataset with documents of one id, and the files beside it.
  std::string write_megatron() const {
    std::string lengths, pointers, borders, labels;
    for (std::int64_t at = 0; at < kIds; ++at) {
      lengths += bytes_of(1, 4);
      pointers += bytes_of(4 * at, 8);
      borders += bytes_of(at, 8);
      labels += bytes_of(at, 8) + bytes_of(7, 8);
    }
    folder_.write("d.bin", bytes_of_all(numbers(), 4));
    folder_.write("d.counted", std::string(kIds, '\1'));
    folder_.write("d.labels", labels);
    folder_.write("d.idx", std::string("MMIDIDX\0\0", 9) + bytes_of(1, 8) + bytes_of(4, 1) +
                               bytes_of(kIds, 8) + bytes_of(kIds + 1, 8) + lengths + pointers +
                               borders + bytes_of(kIds, 8));
    return (folder_.path() / "d").string();
  }
  testing::ScratchFolder folder_;
};

TEST_F(CutFiles, FlatIdsEndWithTheirName) {
  const std::string flat = folder_.write("flat.bin", bytes_of_all(numbers(), 4));
  expect_named(flat, open_tokens(flat, {.vocab = 100}));
  const std::string head = "{'descr': '<u2', 'fortran_order': False, 'shape': (100000,), }";
  const std::string npy = folder_.write(
      "ids.npy", std::string("\x93NUMPY\x01\x00", 8) + bytes_of(118, 2) + head +
                     std::string(117 - head.size(), ' ') + "\n" + bytes_of_all(numbers(), 2));
  expect_named(npy, open_tokens(npy, {.vocab = 100}));
}

TEST_F(CutFiles, EveryFileOfMegatronEndsWithItsName) {
  for (const char* const ending : {".bin", ".idx", ".counted", ".labels"}) {
    const std::string prefix = write_megatron();
    expect_named(prefix + ending, open_megatron(prefix, {.vocab = 100}));
  }
}

TEST_F(CutFiles, ShardsOfMdsEndWithTheirName) {
  const std::string ids = bytes_of_all(numbers(), 8);
  const std::string mask = bytes_of_all(Ids(kIds, 1), 8);
  for (const bool masked : {false, true}) {
    const std::string sizes = masked ? bytes_of(std::ssize(ids), 4) + bytes_of(std::ssize(mask), 4)
                                     : bytes_of(std::ssize(ids), 4);
    const std::string sample = sizes + ids + (masked ? mask : "");
    const std::string path = folder_.write(
        "a.mds", bytes_of(1, 4) + bytes_of(12, 4) + bytes_of(12 + std::ssize(sample), 4) + sample);
    folder_.write("index.json",
                  core::concat(R"({"version": 2, "shards": [{"format": "mds", "samples": 1, )",
                               R"("raw_data": {"basename": "a.mds", "bytes": 1}, )",
                               R"("column_names": ["tokens")", masked ? R"(, "loss_mask")" : "",
                               R"(], "column_encodings": ["bytes")", masked ? R"(, "bytes")" : "",
                               R"(], "column_sizes": [null)", masked ? ", null" : "", "]}]}"));
    UnusedFields unused;
    expect_named(path, open_mds(folder_.path().string(), {.vocab = 100}, unused));
  }
}

}  // namespace
}  // namespace fm::data

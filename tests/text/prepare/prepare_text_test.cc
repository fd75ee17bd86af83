// Text as tokens in --cache_dir: the same for any number of ranks and threads, whole or not there.
#include "text/prepare/prepare_text.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <fstream>

#include "comm/meet/world.h"
#include "tests/text/prepare/scratch.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;

// A document of a line's bytes; "two" makes two, "bad..." none, "half..." counts its second half.
std::string read_bytes(std::string_view line, std::vector<data::Document>& documents) {
  documents.clear();
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("bad")) return "this is a bad line";
  data::Document document;
  for (const char c : line) document.ids.push_back(static_cast<unsigned char>(c));
  if (line.starts_with("half")) {
    document.labels = document.ids;
    std::fill_n(document.labels.begin(), document.ids.size() / 2, data::kIgnored);
  }
  documents.push_back(document);
  if (line.starts_with("two")) documents.push_back(document);
  return "";
}

struct Read {
  std::vector<std::int32_t> ids, labels;
  std::vector<std::int64_t> begins;
  std::string description, fingerprint;
  bool operator==(const Read&) const = default;
};

Read read_all(const data::TokenStream& stream) {
  Read out;
  out.ids.resize(static_cast<std::size_t>(stream.size()));
  out.labels.resize(out.ids.size());
  stream.read(0, out.ids);
  stream.read_labels(0, out.labels);
  for (std::int64_t i = 0; i < stream.documents(); ++i) out.begins.push_back(stream.begin_of(i));
  out.description = stream.describe();
  out.fingerprint = stream.fingerprint();
  return out;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class PrepareText : public Scratch {
 protected:
  std::string write(const std::string& text, const std::string& name = "a.jsonl") const {
    return Scratch::write(name, text);
  }

  Recipe recipe(std::int64_t vocab = 256) {
    Recipe out;
    out.read_line = [this](std::string_view line, std::vector<data::Document>& documents) {
      ++lines_read_;
      return read_bytes(line, documents);
    };
    out.words = "bytes";
    out.tokens = "bytes";
    out.vocab = vocab;
    out.filler = 7;
    return out;
  }

  Read prepare(const std::string& path, int ranks, const std::string& cache, int threads = 1,
               std::int64_t vocab = 256) {
    Read read;
    const Recipe how = recipe(vocab);
    comm::run_ranks(ranks, [&](comm::Communicator& host) {
      data::BadLines bad{.allowed = allowed_, .found = 0, .first = ""};
      const auto stream =
          prepare_text(path, how, {.cache_dir = folder_ / cache, .threads = threads}, bad, host);
      Read mine = read_all(*stream);
      EXPECT_EQ(stream->filler(), 7);
      if (host.rank() == 0) {
        read = std::move(mine);
        bad_ = bad;
      }
    });
    return read;
  }

  std::int64_t allowed_ = 0;
  data::BadLines bad_;
  std::atomic<int> lines_read_ = 0;
};

std::string many_lines() {
  std::string text;
  for (int i = 0; i < 5'000; ++i) {
    text += std::to_string(i) + std::string(static_cast<std::size_t>(i * 37 % 900), 'x') +
            (i % 3 == 0 ? "\r\n" : "\n");
    if (i % 100 == 0) text += "\n";
  }
  return text + "the last line has no end";
}

TEST_F(PrepareText, IdsAreThoseOfTheLinesInOrder) {
  const std::string path = write("ab\n\ntwo\r\nc");
  const Read read = prepare(path, 1, "cache");
  EXPECT_EQ(read.ids, (std::vector<std::int32_t>{'a', 'b', 't', 'w', 'o', 't', 'w', 'o', 'c'}));
  EXPECT_EQ(read.labels, read.ids);
  EXPECT_EQ(read.begins, (std::vector<std::int64_t>{0, 2, 5, 8}));
  EXPECT_EQ(read.description, path + ": 4 documents, 9 bytes");
}

// A file with a hole takes no room on the disk.
TEST_F(PrepareText, ALineHasALimit) {
  const std::string path = write("ab\n\nc\n");
  fs::resize_file(path, 300'000'000);
  for (const int ranks : {1, 2}) {
    const std::string said = refusal([&] { prepare(path, ranks, "cache"); });
    EXPECT_NE(said.find("a.jsonl:4: a line must have at most 256.0 MB"), std::string::npos) << said;
  }
}

TEST_F(PrepareText, LabelsLeaveOutWhatIsNotTrained) {
  const Read read = prepare(write("ab\nhalf\nc\n"), 1, "cache");
  const std::int32_t no = data::kIgnored;
  EXPECT_EQ(read.labels, (std::vector<std::int32_t>{'a', 'b', no, no, 'l', 'f', 'c'}));
  EXPECT_NE(read.description.find("7 bytes, 5 trained on"), std::string::npos) << read.description;
}

// Batches are smaller than the file, and parts begin within lines.
TEST_F(PrepareText, AnyNumberOfRanksAndThreadsGivesTheSame) {
  const std::string path = write(many_lines() + "\nhalf of it is counted\n");
  const Read alone = prepare(path, 1, "one");
  EXPECT_EQ(alone.begins.size(), 5'002U);
  for (const int ranks : {2, 3, 8}) EXPECT_EQ(prepare(path, ranks, std::to_string(ranks)), alone);
  EXPECT_EQ(prepare(path, 2, "threads", 3), alone);
  EXPECT_EQ(prepare(path, 2, "wide", 1, 70'000).ids, alone.ids);
}

TEST_F(PrepareText, MoreRanksThanLinesIsNoProblem) {
  const std::string path = write("a\nb\n");
  EXPECT_EQ(prepare(path, 4, "four"), prepare(path, 1, "one"));
}

// A line is longer than several batches, and the name as long as a file system takes.
TEST_F(PrepareText, LongLinesAndNamesAreWhole) {
  const std::string longest(5'000'000, 'x');
  const std::string path =
      write("a\n" + longest + "\nb\n" + longest, std::string(240, 'n') + ".jsonl");
  const Read read = prepare(path, 3, "cache", 2);
  EXPECT_EQ(read.begins, (std::vector<std::int64_t>{0, 1, 5'000'001, 5'000'002}));
  EXPECT_EQ(read.ids.size(), 10'000'002U);
}

TEST_F(PrepareText, APackedFileGivesWhatIsInIt) {
  const std::string text = many_lines();
  const std::string packed = folder_ / "a.jsonl.gz";
  const gzFile file = gzopen(packed.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(prepare(packed, 2, "packed").ids, prepare(write(text), 1, "plain").ids);
}

// {"a": [1, 2]} over several lines is a line of its own; what is between elements is in none.
TEST_F(PrepareText, AnArrayOfJsonGivesALinePerElement) {
  const std::string array = write("\n[{\"a\":\n[1, 2]},\n \"bad, \\\"]\",\r\n 3\n]\n", "a.json");
  for (const int ranks : {1, 3}) {
    const Read read = prepare(array, ranks, std::to_string(ranks));
    const std::string text(read.ids.begin(), read.ids.end());
    EXPECT_EQ(text, "  {\"a\": [1, 2]}  \"bad, \\\"]\"\r  3  ");
    EXPECT_EQ(read.begins, (std::vector<std::int64_t>{0, 15, 27}));
  }
}

TEST_F(PrepareText, ASecondStartTokenizesNothing) {
  const std::string path = write(many_lines());
  const Read first = prepare(path, 2, "cache");
  const int before = lines_read_;
  EXPECT_EQ(prepare(path, 3, "cache"), first);
  fs::rename(path, folder_ / "moved");
  fs::create_directories(folder_ / "other");
  fs::rename(folder_ / "moved", folder_ / "other" / "a.jsonl");
  EXPECT_EQ(prepare(folder_ / "other" / "a.jsonl", 1, "cache").ids, first.ids);
  EXPECT_EQ(lines_read_, before);
}

TEST_F(PrepareText, AnotherContentOrRecipeIsMadeAnew) {
  prepare(write("ab\n"), 1, "cache");
  EXPECT_EQ(prepare(write("ac\n"), 1, "cache").ids, (std::vector<std::int32_t>{'a', 'c'}));
  const int before = lines_read_;
  Recipe other = recipe();
  other.words = "other";
  comm::run_ranks(1, [&](comm::Communicator& host) {
    data::BadLines bad;
    prepare_text(folder_ / "a.jsonl", other, {.cache_dir = folder_ / "cache"}, bad, host);
  });
  EXPECT_EQ(lines_read_, before + 1);
}

TEST_F(PrepareText, WhatAnInterruptedStartLeftIsNotUsed) {
  const std::string path = write("ab\n");
  fs::create_directories(folder_ / "cache" / ".tmp-a.jsonl-12345678");
  EXPECT_EQ(prepare(path, 2, "cache").ids, (std::vector<std::int32_t>{'a', 'b'}));
}

// The bad line is in the last part, whose numbers count from the file's start.
TEST_F(PrepareText, ABadLineIsNamedWithFileAndLine) {
  const std::string path = write("a\nb\n\nc\nd\nbad\ne\n");
  for (const int ranks : {1, 2, 4}) {
    const std::string said = refusal([&] { prepare(path, ranks, "cache"); });
    EXPECT_NE(said.find("a.jsonl:6: this is a bad line"), std::string::npos) << said;
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "cache"));
}

TEST_F(PrepareText, AStopLeavesNothingAndEndsAllRanks) {
  const std::string path = write(many_lines());
  const Recipe how = recipe();
  std::atomic<int> stopped = 0;
  comm::run_ranks(3, [&](comm::Communicator& host) {
    data::BadLines bad;
    const bool asked = host.rank() == 1;
    const PrepareOptions options{.cache_dir = folder_ / "cache", .stop = [=] { return asked; }};
    try {
      prepare_text(path, how, options, bad, host);
    } catch (const core::MachineError& error) {
      stopped += error.code() == core::ExitCode::kPreempted ? 1 : 0;
    }
  });
  EXPECT_EQ(stopped, 3);
  EXPECT_TRUE(fs::is_empty(folder_ / "cache"));
}

// The folder of rank 1's part is a file: storage fails on one rank, and all say so.
TEST_F(PrepareText, AStorageErrorOfOneRankHasItsCodeOnAll) {
  const std::string path = write(many_lines());
  Recipe how = recipe();
  const ReadLine good = how.read_line;
  how.read_line = [&](std::string_view line, std::vector<data::Document>& documents) {
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
      std::ofstream(entry.path() / "part-00001.idx") << "in the way";
    }
    return good(line, documents);
  };
  std::atomic<int> failed = 0;
  comm::run_ranks(2, [&](comm::Communicator& host) {
    data::BadLines bad;
    try {
      prepare_text(path, how, {.cache_dir = folder_ / "cache"}, bad, host);
    } catch (const core::MachineError& error) {
      failed += error.code() == core::ExitCode::kStorageFailed ? 1 : 0;
      EXPECT_NE(std::string(error.what()).find("rank 1: storage must take"), std::string::npos)
          << error.what();
    }
  });
  EXPECT_EQ(failed, 2);
  EXPECT_TRUE(fs::is_empty(folder_ / "cache"));
}

TEST_F(PrepareText, SoManyBadLinesAreSkippedAndCounted) {
  const std::string path = write("a\nbad\nbad\nb\n");
  allowed_ = 1;
  EXPECT_NE(refusal([&] { prepare(path, 2, "cache"); }).find("--skip_bad_lines allows 1"),
            std::string::npos);
  allowed_ = 2;
  EXPECT_EQ(prepare(path, 2, "cache").ids, (std::vector<std::int32_t>{'a', 'b'}));
  EXPECT_EQ(bad_.found, 2);
  EXPECT_NE(bad_.first.find("a.jsonl:2: "), std::string::npos) << bad_.first;
  // A second start is told the same by the folder.
  allowed_ = 1;
  EXPECT_NE(refusal([&] { prepare(path, 1, "cache"); }).find("2 were found"), std::string::npos);
}

TEST_F(PrepareText, AFileWithoutDocumentsIsRefused) {
  const std::string path = write("\n\n");
  const std::string said = refusal([&] { prepare(path, 2, "cache"); });
  EXPECT_NE(said.find("at least one document is required"), std::string::npos) << said;
}

TEST_F(PrepareText, ADamagedFolderIsNamed) {
  const std::string path = write("abc\nhalf\n");
  prepare(path, 1, "cache");
  for (const char* name : {"part-00000.counted", "part-00000.bin", "prepared.json"}) {
    for (const auto& made : fs::directory_iterator(folder_ / "cache")) {
      fs::resize_file(made.path() / name, 2);
    }
    const std::string said = refusal([&] { prepare(path, 1, "cache"); });
    EXPECT_NE(said.find("cache"), std::string::npos) << name << ": " << said;
  }
}

// Ids, places and what is counted stay possible: nothing but a sum tells.
TEST_F(PrepareText, OneFlippedBitIsFound) {
  const std::string path = write("abc\nhalf\nabcdef\n");
  const Read good = prepare(path, 2, "cache");
  int files = 0;
  for (const auto& made : fs::recursive_directory_iterator(folder_ / "cache")) {
    if (!made.path().filename().string().starts_with("part-")) continue;
    const std::string bytes = bytes_of(made.path());
    const std::size_t step = bytes.size() / 7 + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      std::ofstream(made.path(), std::ios::binary) << bad;
      const std::string said = refusal([&] { prepare(path, 1, "cache"); });
      const std::string prefix = made.path().string().substr(0, made.path().string().rfind('.'));
      EXPECT_TRUE(said.starts_with(prefix +
                                   ".bin: prepared text must be as it was written, with "
                                   "what lies beside it; delete the folder, it is made again"))
          << made.path() << " at " << at << ": " << said;
    }
    std::ofstream(made.path(), std::ios::binary) << bytes;
    ++files;
  }
  EXPECT_EQ(files, 5);  // .bin and .idx of two parts, .counted of one
  EXPECT_EQ(prepare(path, 1, "cache"), good);
}

TEST_F(PrepareText, TokensWithoutSumsAreMadeAgain) {
  const std::string path = write("abc\n");
  const Read made = prepare(path, 1, "cache");
  fs::path folder;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    if (entry.is_directory()) folder = entry.path();
  }
  const std::string name = folder.string();
  ASSERT_TRUE(name.ends_with("-2")) << name;
  fs::rename(folder, name.substr(0, name.size() - 2));
  const int before = lines_read_;
  std::string said;
  comm::run_ranks(1, [&](comm::Communicator& host) {
    data::BadLines bad;
    const PrepareOptions options{.cache_dir = folder_ / "cache",
                                 .say = [&](const std::string& line) { said += line + '\n'; }};
    EXPECT_EQ(read_all(*prepare_text(path, recipe(), options, bad, host)), made);
  });
  EXPECT_EQ(lines_read_, before + 1);
  EXPECT_TRUE(said.starts_with(name.substr(0, name.size() - 2) + ": tokens of an older build"))
      << said;
}

}  // namespace
}  // namespace fm::prepare

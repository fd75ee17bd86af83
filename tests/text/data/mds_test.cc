// MDS datasets, written here by the layout of MosaicML Streaming's format/mds/writer.py.
#include "text/data/formats/mds.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <filesystem>
#include <random>
#include <utility>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/written_numbers.h"
#include "text/data/data_paths.h"

namespace fm::data {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using testing::bytes_of;
using testing::bytes_of_all;
using testing::Ids;

// One column of a dataset: its fixed size (0: none) and its bytes in each sample.
struct Column {
  std::string name, encoding;
  std::int64_t size = 0;
  std::vector<std::string> data;
};

std::string shard_of(const std::vector<Column>& columns) {
  const std::size_t samples = columns[0].data.size();
  const std::string config = "{\"a config\": \"that nobody reads\"}";
  std::vector<std::int64_t> offsets = {
      static_cast<std::int64_t>(4 * (samples + 2) + config.size())};
  std::string body;
  for (std::size_t at = 0; at < samples; ++at) {
    std::string sizes, values;
    for (const Column& column : columns) {
      if (column.size == 0) sizes += bytes_of(std::ssize(column.data[at]), 4);
      values += column.data[at];
    }
    body += sizes + values;
    offsets.push_back(offsets[0] + std::ssize(body));
  }
  return bytes_of(static_cast<std::int64_t>(samples), 4) + bytes_of_all(offsets, 4) + config + body;
}

// The entry of a shard in index.json. `packed`: its zip_data and compression.
std::string entry_of(const std::vector<Column>& columns, const std::string& name, std::size_t bytes,
                     const std::string& packed) {
  std::string names, encodings, sizes;
  for (const Column& column : columns) {
    const char* const comma = names.empty() ? "" : ",";
    names += comma + ("\"" + column.name + "\"");
    encodings += comma + ("\"" + column.encoding + "\"");
    sizes += comma + (column.size == 0 ? std::string("null") : std::to_string(column.size));
  }
  return core::concat(
      "{\"column_encodings\":[", encodings, "],\"column_names\":[", names, "],\"column_sizes\":[",
      sizes, "],", packed, ",\"format\":\"mds\",\"hashes\":[],\"raw_data\":{\"basename\":\"", name,
      "\",\"bytes\":", bytes, ",\"hashes\":{}},\"samples\":", columns[0].data.size(),
      ",\"size_limit\":67108864,\"version\":2}");
}

constexpr const char* kPlain = "\"compression\":null,\"zip_data\":null";

class Mds : public ::testing::Test {
 protected:
  std::string folder() const { return folder_.path().string(); }
  std::string write_index(const std::vector<std::string>& entries) {
    std::string list;
    for (const std::string& entry : entries) list += (list.empty() ? "" : ",") + entry;
    return folder_.write("index.json", "{\"shards\":[" + list + "],\"version\":2}");
  }
  // One shard of one column "tokens".
  void write(const std::string& encoding, std::int64_t size, std::vector<std::string> data) {
    const std::vector<Column> columns = {{"tokens", encoding, size, std::move(data)}};
    const std::string shard = shard_of(columns);
    folder_.write("shard.00000.mds", shard);
    write_index({entry_of(columns, "shard.00000.mds", shard.size(), kPlain)});
  }
  // The documents of the dataset.
  std::vector<Ids> documents(TokenType type = TokenType::kAuto) {
    const StreamPtr stream = open_mds(folder(), {.token_type = type, .vocab = 1000}, unused_);
    std::vector<Ids> all;
    for (std::int64_t at = 0; at < stream->documents(); ++at) {
      const std::int64_t begin = stream->begin_of(at);
      all.emplace_back(static_cast<std::size_t>(stream->begin_of(at + 1) - begin));
      stream->read(begin, all.back());
    }
    Ids whole(static_cast<std::size_t>(stream->size()));
    stream->read(0, whole);
    Ids joined;
    for (const Ids& one : all) joined.insert(joined.end(), one.begin(), one.end());
    EXPECT_EQ(whole, joined);
    return all;
  }
  std::string refusal(TokenType type = TokenType::kAuto) {
    return testing::message_of<core::UserError>(11, [&] { documents(type); });
  }
  testing::ScratchFolder folder_;
  UnusedFields unused_;
  const std::vector<Ids> kTwo = {{1, 2, 300}, {4, 5}};
};

// llm-foundry's: bytes of int64.
TEST_F(Mds, BytesAreInt64OrWhatTheFlagSays) {
  write("bytes", 0, {bytes_of_all(kTwo[0], 8), bytes_of_all(kTwo[1], 8)});
  EXPECT_EQ(documents(), kTwo);
  write("bytes", 0, {bytes_of_all(kTwo[0], 2), bytes_of_all(kTwo[1], 2)});
  EXPECT_EQ(documents(TokenType::kU16), kTwo);
  EXPECT_NE(refusal().find("sample 0: 6 bytes are no whole int64"), std::string::npos) << refusal();
}

// encodings.py, NDArray: type and shape are in the encoding, or in front of the numbers.
TEST_F(Mds, ArraysSayWhatTheirEncodingLeavesOpen) {
  struct Type {
    const char* name;
    int code, width;
  };
  for (const Type& type : {Type{"uint16", 16, 2}, Type{"int16", 17, 2}, Type{"uint32", 32, 4},
                           Type{"int32", 33, 4}, Type{"uint64", 64, 8}, Type{"int64", 65, 8}}) {
    const std::string code = bytes_of(type.code, 1);
    const std::string one = bytes_of_all(kTwo[0], type.width);
    const std::string two = bytes_of_all(kTwo[1], type.width);
    // One dim of a byte: 1 << 2 | 0.
    write(std::string("ndarray:") + type.name, 0, {"\x04\x03" + one, "\x04\x02" + two});
    EXPECT_EQ(documents(), kTwo) << type.name;
    // One dim of two bytes, 1 << 2 | 1; two dims of four bytes, 2 << 2 | 2.
    write("ndarray", 0,
          {code + "\x05" + bytes_of(3, 2) + one,
           code + "\x0a" + bytes_of(2, 4) + bytes_of(1, 4) + two});
    EXPECT_EQ(documents(), kTwo) << type.name;
    write(std::string("ndarray:") + type.name + ":1,2", 2 * type.width, {two, two});
    EXPECT_EQ(documents(), (std::vector<Ids>{kTwo[1], kTwo[1]})) << type.name;
  }
  write("ndarray:uint8", 0, {"\x04\x02\x07\x08"});
  EXPECT_EQ(documents(), (std::vector<Ids>{{7, 8}}));
}

// Columns of any encoding are stepped over, a pickle too: nothing is unpacked but the ids.
TEST_F(Mds, OtherColumnsAreSteppedOver) {
  const std::vector<Column> columns = {
      {"id", "int", 8, {bytes_of(77, 8), bytes_of(78, 8)}},
      {"input_ids",
       "ndarray:int32",
       0,
       {"\x04\x03" + bytes_of_all(kTwo[0], 4), "\x04\x02" + bytes_of_all(kTwo[1], 4)}},
      {"meta", "json", 0, {"{}", "{\"a\":[1]}"}},
      {"score", "uint16", 2, {"ab", "cd"}},
      {"thing", "pkl", 0, {"\x80\x04.", ""}},
      {"url", "str", 0, {"", "http"}},
  };
  const std::string shard = shard_of(columns);
  folder_.write("a.mds", shard);
  write_index({entry_of(columns, "a.mds", shard.size(), kPlain)});
  EXPECT_EQ(documents(), kTwo);
  const UnusedFields expected = {{"id", 2}, {"meta", 2}, {"score", 2}, {"thing", 2}, {"url", 2}};
  EXPECT_EQ(unused_, expected);
}

// The fields of JSONL (jsonl_ids_test.cc), in arrays of any whole numbers and in bytes.
TEST_F(Mds, ColumnsThatSayWhatIsTrainedAreHonoured) {
  constexpr std::int32_t X = kIgnored;
  const auto array = [](const Ids& numbers, int width) {
    return "\x04" + bytes_of(std::ssize(numbers), 1) + bytes_of_all(numbers, width);
  };
  std::vector<Column> columns = {
      {"input_ids", "ndarray:uint16", 0, {array({0, 5, 6, 7}, 2), array({8, 9}, 2)}},
      {"labels", "ndarray:int64", 0, {array({X, X, 6, 7}, 8), array({8, 9}, 8)}},
      {"attention_mask", "ndarray:uint8", 0, {array({0, 1, 1, 1}, 1), array({1, 1}, 1)}},
      {"loss_mask", "bytes", 0, {bytes_of_all(Ids{1, 1, 1, 0}, 8), bytes_of_all(Ids{1, 1}, 8)}},
      {"completion_mask", "ndarray:int8", 0, {array({0, 1, 1, 1}, 1), array({0, 1}, 1)}},
      {"position_ids", "ndarray:int32", 0, {array({-1, 0, 1, 2}, 4), array({0, 1}, 4)}}};
  const auto put = [&] {
    const std::string shard = shard_of(columns);
    folder_.write("a.mds", shard);
    write_index({entry_of(columns, "a.mds", shard.size(), kPlain)});
  };
  put();
  EXPECT_EQ(documents(), (std::vector<Ids>{{5, 6, 7}, {8, 9}}));
  Ids labels(5);
  open_mds(folder(), {.vocab = 1000}, unused_)->read_labels(0, labels);
  EXPECT_EQ(labels, (Ids{X, 6, X, X, 9}));
  Ids part(2);
  open_mds(folder(), {.vocab = 1000}, unused_)->read_labels(1, part);
  EXPECT_EQ(part, (Ids{6, X}));
  EXPECT_TRUE(open_mds(folder(), {.vocab = 1000}, unused_)->ignores_some());

  const auto says = [&](std::size_t column, const Column& other, const std::string& words) {
    const Column right = std::exchange(columns[column], other);
    put();
    columns[column] = right;
    EXPECT_NE(refusal().find(words), std::string::npos) << refusal();
  };
  says(1, {"labels", "ndarray:int64", 0, {array({X, X, 6, 7}, 8), array({8}, 8)}},
       "a.mds: sample 1: field \"labels\" must be as long as the ids; correct the row (1 and 2)");
  // 2^32 + 6 is no label, nor is 6 what is left of it.
  says(1,
       {"labels",
        "ndarray:uint64",
        0,
        {"\x04\x04" + bytes_of(6, 4) + bytes_of(1, 4) + bytes_of_all(Ids{0, 0, 0}, 8),
         array({8, 9}, 8)}},
       "the column \"labels\" must hold whole numbers in [0, vocab_size), or -100; write the "
       "dataset "
       "anew (4294967302 at position 0 of sample 0, vocab_size=1000)");
  says(3,
       {"loss_mask", "ndarray:uint64", 0, {"\x04\x04" + std::string(32, '\xff'), array({1, 1}, 8)}},
       "(18446744073709551615 at position 0 of sample 0");
  says(5, {"position_ids", "ndarray:int32", 0, {array({0, 0, 1, 2}, 4), array({0, 0}, 4)}},
       "sample 1: field \"position_ids\" must count from 0 to the end of the row");
  says(2, {"attention_mask", "pkl", 0, {"", ""}},
       "the column \"attention_mask\" must be an ndarray or bytes");
  says(3, {"seq_lengths", "ndarray:int32", 0, {"", ""}},
       "the column \"seq_lengths\" tells documents of a row apart");
  says(3, {"prompt_mask", "ndarray:int8", 0, {"", ""}}, "the column \"prompt_mask\" is not known");
}

TEST_F(Mds, ShardsFollowEachOtherPackedOrNot) {
  std::vector<std::string> entries;
  std::vector<Ids> expected;
  fs::create_directories(folder_.path() / "part");
  for (int number = 0; number < 3; ++number) {
    const Ids ids = {10 * number, 10 * number + 1};
    const std::vector<Column> columns = {
        {"tokens", "bytes", 0, {bytes_of_all(kTwo[0], 8), bytes_of_all(ids, 8)}}};
    expected.push_back(kTwo[0]);
    expected.push_back(ids);
    const std::string shard = shard_of(columns);
    const std::string name = "part/s" + std::to_string(number);
    std::string packed(ZSTD_compressBound(shard.size()), ' ');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), shard.data(), shard.size(), 7));
    if (number == 1) {
      folder_.write(name, shard);
    } else {
      folder_.write(name + ".zstd", packed);
    }
    const std::string zip = number == 1
                                ? kPlain
                                : "\"compression\":\"zstd:7\",\"zip_data\":{\"basename\":\"" +
                                      name + ".zstd\",\"bytes\":1,\"hashes\":{}}";
    entries.push_back(entry_of(columns, name, shard.size(), zip));
  }
  write_index(entries);
  EXPECT_EQ(documents(), expected);
  EXPECT_EQ(file_of(folder(), DataFormat::kAuto).format, DataFormat::kMds);
  const auto source = open_source(
      {.paths = {folder()}, .packing = Packing::kOneDocument, .seq_len = 2, .vocab = 1000});
  EXPECT_EQ(source->samples_per_epoch(), 6);
  EXPECT_NE(source->describe().find(": 6 documents, 15 int64 tokens (MDS, 3 shards); 6 rows"),
            std::string::npos)
      << source->describe();
}

TEST_F(Mds, WhatCannotBeReadIsRefusedByName) {
  const auto says = [&](const std::string& words) {
    const std::string said = refusal();
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  says("index.json: an MDS index must be readable (No such file");
  for (const char* const key : {"shards", "version", "other"}) {
    folder_.write("index.json", std::string("{\"") + key + "\":" + std::string(100'000, '[') +
                                    std::string(100'000, ']') + "}");
    says("index.json: an MDS index must be whole; write the dataset anew (it has more than 100");
  }
  write("pkl", 0, {"x"});
  says(
      "the column \"tokens\" must be an ndarray or bytes; write the dataset anew, so that nothing "
      "has to be "
      "unpickled");
  write("str", 0, {"x"});
  says("(encoding str)");
  write("ndarray:float32", 0, {"x"});
  says(
      "the column \"tokens\" must be of whole numbers; write the dataset anew (encoding "
      "ndarray:float32)");
  write("ndarray", 0, {"\x22\x04\x01" + bytes_of(0, 4)});
  says("sample 0: its array is of no whole numbers: type 34");
  write("ndarray:int32", 0, {"\x04\x02" + bytes_of(5, 4)});
  says("sample 0: its array has 4 bytes for 2 int32");
  write("ndarray:int32", 0,
        {"\x04\x01" + bytes_of(5, 4), "\x04\x02" + bytes_of_all(Ids{1, 1000}, 4)});
  says(
      "shard.00000.mds: token ids must be in [0, vocab_size); check that dataset and model belong "
      "together (id 1000 at position 1 of sample 1, vocab_size=1000, read as int32)");
  const std::vector<Column> columns = {{"text", "str", 0, {"x"}}};
  write_index({entry_of(columns, "a", 9, kPlain)});
  says(
      "must have a column \"tokens\" or \"input_ids\"; tokenize it first (its columns: "
      "[\"text\"])");
  const std::vector<Column> ids = {{"tokens", "bytes", 0, {"12345678"}}};
  for (const char* const name : {"../a.mds", "/etc/passwd"}) {
    write_index({entry_of(ids, name, 9, kPlain)});
    says("a file outside its folder");
  }
  write_index(
      {entry_of(ids, "a.mds", 9, "\"compression\":\"br:3\",\"zip_data\":{\"basename\":\"z\"}")});
  says("shards must be compressed by zstd or gz, or not at all");
}

// A shard that unpacks to more than the index says is not unpacked to its end.
TEST_F(Mds, APackedShardHasItsLength) {
  const std::string shard(5 << 20, 'x');
  std::string packed(ZSTD_compressBound(shard.size()), ' ');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), shard.data(), shard.size(), 3));
  folder_.write("a.zstd", packed);
  const std::vector<Column> ids = {{"tokens", "bytes", 0, {"12345678"}}};
  const char* const zip =
      "\"compression\":\"zstd\",\"zip_data\":{\"basename\":\"a.zstd\",\"bytes\":1}";
  for (const std::size_t bytes : {std::size_t{100}, shard.size() - 1, shard.size() + 1}) {
    write_index({entry_of(ids, "a.mds", bytes, zip)});
    EXPECT_NE(refusal().find("a.zstd: a shard must be as long as the index says"),
              std::string::npos)
        << refusal();
  }
}

// Thousands of damaged datasets end in one that can be read, or in one refusal.
TEST_F(Mds, DamagedDatasetsAreReadOrRefused) {
  const std::vector<Column> columns = {
      {"n", "uint16", 2, {"ab", "cd"}},
      {"tokens",
       "ndarray",
       0,
       {"\x21\x04\x03" + bytes_of_all(kTwo[0], 4),
        "\x10\x0a" + bytes_of(2, 4) + bytes_of(1, 4) + bytes_of_all(kTwo[1], 2)}},
      {"labels",
       "ndarray:int16",
       0,
       {"\x04\x03" + bytes_of_all(Ids{1, -100, 300}, 2), "\x04\x02" + bytes_of_all(kTwo[1], 2)}},
      {"attention_mask", "ndarray:uint8", 0, {"\x04\x03\x01\x01\x01"s, "\x04\x02\x01\x00"s}}};
  const std::string shard = shard_of(columns);
  write_index({entry_of(columns, "a.mds", shard.size(), kPlain)});
  const std::string index = testing::file_content(folder_.path() / "index.json");
  std::mt19937 random(29);
  int opened = 0;
  for (int round = 0; round < 800; ++round) {
    std::string bad[] = {index, shard};
    std::string& file = bad[round % 2];
    for (auto left = 1 + random() % 2; left > 0; --left) {
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = static_cast<char>(file[at] ^ (1 << random() % 8)); break;
        case 2: file.erase(at, 1 + random() % 9); break;
        default: file.insert(at, 1, "0123456789\",:[]{}"[random() % 17]); break;  // the fourth
      }
      if (file.empty()) file = " ";
    }
    folder_.write("index.json", bad[0]);
    folder_.write("a.mds", bad[1]);
    try {
      documents();
      ++opened;
    } catch (const core::UserError& refused) {
      EXPECT_EQ(refused.code(), core::ExitCode::kDataError) << refused.what();
    }
  }
  EXPECT_GT(opened, 20);
  EXPECT_LT(opened, 700);
}

}  // namespace
}  // namespace fm::data

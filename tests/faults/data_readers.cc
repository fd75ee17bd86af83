// Files of data, written by their layouts as in tests/text/data.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/check.h"
#include "tests/faults/readers.h"
#include "tests/text/data/written_numbers.h"
#include "tests/text/prepare/small_tokenizer.h"
#include "text/data/sample_source.h"
#include "text/data/saved_dataset.h"
#include "text/prepare/prepared_stream.h"
#include "text/prepare/text_recipe.h"
#include "text/prepare/write_tokens.h"

namespace fm::faults {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::bytes_of_all;

std::vector<int> some_ids(int count) {
  std::vector<int> ids;
  for (int at = 0; at < count; ++at) ids.push_back((7 * at + 3) % 50);
  return ids;
}

void read_rows(const data::SourceOptions& options) {
  const auto source = data::open_source(options);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(options.seq_len));
  std::vector<std::int32_t> labels = tokens;
  const std::int64_t rows = std::min<std::int64_t>(source->samples_per_epoch(), 200);
  for (std::int64_t row = 0; row < rows; ++row) {
    source->read(row, tokens, labels);
    source->document_starts(row);
  }
}

std::function<void(const fs::path&)> rows_of(const std::string& name,
                                             data::DataFormat format = data::DataFormat::kAuto,
                                             std::int64_t vocab = 300) {
  return [=](const fs::path& folder) {
    read_rows({.paths = {name.empty() ? folder.string() : (folder / name).string()},
               .format = format,
               .seq_len = 8,
               .vocab = vocab});
  };
}

std::string npy() {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (64,), }";
  header.resize(117, ' ');
  return "\x93NUMPY\x01" + std::string(1, '\0') + bytes_of(std::ssize(header) + 1, 2) + header +
         "\n" + bytes_of_all(some_ids(64), 4);
}

std::string llm_c(std::int32_t magic, std::int32_t version, int width) {
  std::string file = bytes_of(magic, 4) + bytes_of(version, 4) + bytes_of(64, 4);
  file.resize(1024);
  return file + bytes_of_all(some_ids(64), width);
}

std::vector<SeedFile> megatron(const std::string& name) {
  const std::vector<int> lengths = {20, 30, 14};
  const std::vector<std::int64_t> pointers = {0, 80, 200};
  const std::vector<std::int64_t> borders = {0, 1, 2, 3};
  return {{name + ".bin", bytes_of_all(some_ids(64), 4)},
          {name + ".idx", std::string("MMIDIDX\0\0", 9) + bytes_of(1, 8) + bytes_of(4, 1) +
                              bytes_of(3, 8) + bytes_of(4, 8) + bytes_of_all(lengths, 4) +
                              bytes_of_all(pointers, 8) + bytes_of_all(borders, 8)}};
}

std::vector<SeedFile> mds() {
  const std::string sample = bytes_of(66, 4) + "\x04\x10" + bytes_of_all(some_ids(16), 4);
  const std::string config = "{\"x\": 1}";
  const std::int64_t first = 4 * 4 + std::ssize(config);
  const std::vector<std::int64_t> offsets = {first, first + std::ssize(sample),
                                             first + 2 * std::ssize(sample)};
  const std::string shard = bytes_of(2, 4) + bytes_of_all(offsets, 4) + config + sample + sample;
  const std::string index =
      R"({"shards":[{"column_encodings":["ndarray:int32"],"column_names":["tokens"],)"
      R"("column_sizes":[null],"compression":null,"format":"mds","hashes":[],"raw_data":)"
      R"({"basename":"shard.00000.mds","bytes":)" +
      std::to_string(shard.size()) +
      R"(,"hashes":{}},"samples":2,"size_limit":67108864,"version":2,"zip_data":null}],)"
      R"("version":2})";
  return {{"index.json", index, Kind::kJson}, {"shard.00000.mds", shard}};
}

const std::string kTexts =
    "{\"text\": \"ab abc \\u00e9\\n\", \"id\": 1}\n{\"text\": \"gr\u00f6\u00dfe \u6570\"}\n"
    "{\"text\": \"\"}\n{\"id\": [1, {\"a\": null}], \"text\": \"the end of a row of words\"}\n";
const std::string kIds =
    "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}\n"
    "{\"input_ids\": [5, 6, 7, 8], \"labels\": [-100, 6, 7, 8], \"attention_mask\": [1, 1, 1, 1]}\n"
    "{\"input_ids\": [9, 8, 7, 6, 5, 4, 3, 2, 1], \"x\": {\"y\": [1.5, \"z\"]}}\n";

const std::string kPlain = "\xef\xbb\xbfone line of text\r\n\r\nand \u00e9 one more\n\n\n last";
// With `separator` between values.
std::string values(const std::string& separator) {
  std::string text;
  for (const char* const each :
       {"id", "text", "more\r\n1", "\"a \"\"quoted\"\" text,\nof two lines\"", "\n\n2",
        "plain text", "y\n3", "\"\t,\"", "z\"w"}) {
    const bool begins = text.empty() || text.ends_with('\n');
    text += (begins ? "" : separator) + std::string(each);
  }
  return text;
}

const std::string kChats =
    R"({"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b ab"},)"
    R"( {"role": "assistant", "content": "ab", "reasoning_content": "c", "tool_calls": [)"
    R"({"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]}],)"
    R"( "tools": [{"type": "function", "function": {"name": "f"}}]})"
    "\n"
    R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"
    "\n"
    R"({"prompt": "ab", "completion": " a"})"
    "\n"
    R"({"instruction": "a", "input": "b", "output": "c"})"
    "\n"
    R"({"segments": [{"text": "ab", "label": true}, {"text": "a", "label": false}]})"
    "\n";

const std::string kChatTemplate =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ "
    "m.content|trim"
    " }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% for t in "
    "m.tool_calls or [] %}{{ t|tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Every line is tried by itself: a bad one ends nothing here.
void read_chats(const fs::path& folder) {
  const prepare::Recipe recipe = prepare::read_recipe(folder, "", {});
  prepare::write_tokens({.paths = {(folder / "chats.jsonl").string()},
                         .out = folder / "ids",
                         .layout = prepare::TokenLayout::kMegatron,
                         .skip_bad_lines = 1'000},
                        recipe);
}

// With the sums that the writer finds.
std::vector<SeedFile> prepared_folder() {
  std::vector<SeedFile> files = megatron("part-00000");
  std::string pattern = (fs::temp_directory_path() / "prepared_seed_XXXXXX").string();
  FM_CHECK(::mkdtemp(pattern.data()) != nullptr, "a temporary folder is required");
  const fs::path folder = pattern;
  for (const SeedFile& each : files) std::ofstream(folder / each.name) << each.content;
  prepare::write_prepared(
      folder, {.source = "a.jsonl",
               .recipe = "r",
               .identity = "i",
               .parts = {{.documents = 3,
                          .ids = 64,
                          .counted = 64,
                          .content = prepare::content_of_part(folder / "part-00000", 300)}},
               .bad_lines = 0,
               .first_bad = "",
               .filler = 0,
               .unused = {{"id", 3}}});
  std::ifstream written(folder / "prepared.json");
  files.push_back(
      {"prepared.json", std::string(std::istreambuf_iterator<char>(written), {}), Kind::kJson});
  fs::remove_all(folder);
  return files;
}

std::vector<SeedFile> tokenizer_folder() {
  return {
      {"tokenizer.json", prepare::small_tokenizer(), Kind::kJson, true},
      {"tokenizer_config.json", R"({"eos_token": "</s>", "bos_token": "<s>"})", Kind::kJson, true}};
}

std::vector<SeedFile> beside_tokenizer(SeedFile one, SeedFile other) {
  std::vector<SeedFile> files = tokenizer_folder();
  files.push_back(std::move(one));
  files.push_back(std::move(other));
  return files;
}

}  // namespace

std::vector<Reader> data_readers() {
  using data::DataFormat;
  const SeedFile chats{"chats.jsonl", kChats, Kind::kJsonLines};
  const SeedFile chat_template{"chat_template.jinja", kChatTemplate, Kind::kTemplate};
  const auto fixed = [](SeedFile file) { return file.fixed = true, file; };
  return {
      {"JSONL of text", {{{"a.jsonl", kTexts, Kind::kJsonLines}}}, rows_of("a.jsonl")},
      {"JSON array of text",
       {{{"a.json", R"([{"text": "abc and a few more"}, {"text": "a\nb", "x": [1]}])",
          Kind::kJson}}},
       rows_of("a.json")},
      {"JSONL of ids",
       {{{"a.jsonl", kIds, Kind::kJsonLines}}},
       rows_of("a.jsonl", DataFormat::kJsonlIds)},
      {"gzip", {{{"a.jsonl.gz", kTexts}}}, rows_of("a.jsonl.gz"), {}, Packed::kGzip},
      {"text", {{{"a.txt", kPlain}}}, rows_of("a.txt")},
      {"CSV", {{{"a.csv", values(",")}}}, rows_of("a.csv")},
      {"TSV", {{{"a.tsv.gz", values("\t")}}}, rows_of("a.tsv.gz"), {}, Packed::kGzip},
      {"saved data set",
       {{{"state.json", R"({"_data_files": [{"filename": "a.arrow"}], "_split": null})",
          Kind::kJson},
         {"dataset_info.json", "{}", Kind::kJson, true}}},
       [](const fs::path& folder) { data::files_of_saved_dataset(folder.string()); }},
      {"zstd", {{{"a.jsonl.zst", kTexts}}}, rows_of("a.jsonl.zst"), {}, Packed::kZstd},
      {"flat ids",
       {{{"a.bin", bytes_of_all(some_ids(64), 4)}}},
       rows_of("a.bin", DataFormat::kTokens)},
      {".npy", {{{"a.npy", npy()}}}, rows_of("a.npy")},
      {"llm.c",
       {{{"a.bin", llm_c(20240520, 1, 2)}}, {{"a.bin", llm_c(20240801, 7, 4)}}},
       rows_of("a.bin")},
      {"Megatron", {megatron("d")}, rows_of("d")},
      {"MDS", {mds()}, rows_of("")},
      {"chat lines", {beside_tokenizer(chats, fixed(chat_template))}, read_chats},
      {"chat template", {beside_tokenizer(fixed(chats), chat_template)}, read_chats},
      {"prepared.json",
       {prepared_folder()},
       [](const fs::path& folder) {
         const auto stream = prepare::open_prepared(folder, "a.jsonl", "tokens", 300);
         std::vector<std::int32_t> ids(
             static_cast<std::size_t>(std::min<std::int64_t>(stream->size(), 1'000)));
         stream->read(0, ids);
       }},
  };
}

}  // namespace fm::faults

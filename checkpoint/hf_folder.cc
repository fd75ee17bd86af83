#include "checkpoint/hf_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "checkpoint/foreign_folder.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "checkpoint/torch_file.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

using nlohmann::ordered_json;

// Names that real text hardly holds: Hugging Face reads them as one id wherever they appear.
constexpr const char* kBosText = "<|begin_of_text|>";
constexpr const char* kEosText = "<|end_of_text|>";
constexpr const char* kPadText = "<|pad|>";

// GPT-2's map of bytes to visible characters (openai/gpt-2 src/encoder.py bytes_to_unicode):
// printable ones stand for themselves, the other 68 are U+0100 and up, in order. As UTF-8.
std::string visible(int byte, int& next_hidden) {
  const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  const int code = itself ? byte : 0x100 + next_hidden++;
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

ordered_json special(int id, const char* content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

ordered_json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

}  // namespace

std::string byte_tokenizer_json() {
  ordered_json vocab = ordered_json::object();
  int next_hidden = 0;
  for (int byte = 0; byte < core::kByteCount; ++byte) vocab[visible(byte, next_hidden)] = byte;
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocab},
                              {"merges", ordered_json::array()}};
  const ordered_json added = {special(core::kBosId, kBosText), special(core::kEosId, kEosText),
                              special(core::kPadId, kPadText)};
  const ordered_json all = {
      {"version", "1.0"},          {"truncation", nullptr},   {"padding", nullptr},
      {"added_tokens", added},     {"normalizer", nullptr},   {"pre_tokenizer", byte_level()},
      {"post_processor", nullptr}, {"decoder", byte_level()}, {"model", model}};
  return all.dump(2) + "\n";
}

bool is_byte_tokenizer(std::string_view json) {
  using nlohmann::json_pointer;
  const auto ours = nlohmann::json::parse(byte_tokenizer_json());
  if (!core::is_shallow(json)) return false;
  const auto theirs = nlohmann::json::parse(json, nullptr, false);
  if (theirs.is_discarded()) return false;
  for (const char* part :
       {"/added_tokens", "/pre_tokenizer", "/model/type", "/model/vocab", "/model/merges"}) {
    const json_pointer<std::string> at(part);
    if (!theirs.contains(at) || theirs.at(at) != ours.at(at)) return false;
  }
  return true;
}

std::string byte_tokenizer_config_json() {
  const ordered_json config = {
      {kTokenizerMarker, "bytes"}, {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kBosText},     {"eos_token", kEosText},
      {"pad_token", kPadText},     {"add_bos_token", false},
      {"add_eos_token", false},    {"clean_up_tokenization_spaces", false}};
  return config.dump(2) + "\n";
}

std::string byte_generation_config_json() {
  const ordered_json config = {{"bos_token_id", core::kBosId},
                               {"eos_token_id", core::kEosId},
                               {"pad_token_id", core::kPadId}};
  return config.dump(2) + "\n";
}

namespace {

namespace fs = std::filesystem;

// How the weights of a folder may lie there; the first that it has is read, as in transformers.
struct WeightFiles {
  const char* single;
  const char* index;  // of several files
  TensorFile::Parse parse;
};
constexpr WeightFiles kWeightFiles[] = {
    {kWeightsFile, kWeightsIndex, parse_safetensors},
    {"pytorch_model.bin", "pytorch_model.bin.index.json", parse_torch_file},
};

nlohmann::json parse_json_file(const fs::path& path) {
  const core::SmallFile file = core::read_small_file(path, core::kMostListing);
  FM_DATA_CHECK(file.problem.empty(), path.string(),
                ": a readable file is required; get the file again (", file.problem, ")");
  FM_DATA_CHECK(core::is_shallow(file.text), path.string(), ": at most ", core::kMostBrackets,
                " levels of brackets are possible; get the file again");
  nlohmann::json parsed = nlohmann::json::parse(file.text, nullptr, false);
  FM_DATA_CHECK(!parsed.is_discarded() && parsed.is_object(), path.string(),
                ": a JSON object is required; get the file again");
  return parsed;
}

}  // namespace

struct HfFolder::Files {
  struct TensorLocation {
    std::size_t file;
    std::string stored;  // the tensor's name in it
  };

  std::vector<TensorFile> files;
  std::vector<std::string> names;  // in order of the files
  std::unordered_map<std::string, TensorLocation> where;
  struct Growth {
    std::int64_t stored;
    std::int64_t rows;
    std::vector<float> mean = {};  // of the stored rows; made when it is read
  };
  std::unordered_map<std::string, Growth> grown;

  const StoredTensor& tensor_of(const TensorLocation& at) const {
    return *files[at.file].find(at.stored);
  }
  // Elements [first, first + out.size()) of a tensor as it is stored.
  void read_run(const TensorLocation& at, core::Elements first, std::span<float> out) const {
    if (out.empty()) return;
    const core::Elements count(std::ssize(out));
    files[at.file].read(
        core::slice_in_memory(at.stored, tensor_of(at).shape, first, out.data(), count));
  }
  const std::vector<float>& mean_of(const TensorLocation& at, Growth& growth) const;
  void read_grown(const TensorLocation& at, const core::TensorSlice& slice, Growth& growth) const;

  void open_single(const fs::path& path, TensorFile::Parse parse) {
    files.emplace_back(path.string(), parse);
    for (const StoredTensor& tensor : files[0].header().tensors) {
      names.push_back(tensor.name);
      where[tensor.name] = {0, tensor.name};
    }
  }

  void open_sharded(const fs::path& index, TensorFile::Parse parse) {
    const nlohmann::json parsed = parse_json_file(index);
    const bool has_map = parsed.contains("weight_map") && parsed["weight_map"].is_object();
    FM_DATA_CHECK(has_map, index.string(),
                  ": an object \"weight_map\" is required; get the file again");
    FM_DATA_CHECK(!parsed["weight_map"].empty(), index.string(),
                  ": \"weight_map\" must map at least one tensor; get the file again");
    std::unordered_map<std::string, std::size_t> opened;
    for (const auto& [name, file] : parsed["weight_map"].items()) {
      FM_DATA_CHECK(file.is_string(), index.string(), ": \"weight_map\" must map names to files; ",
                    "get the file again (", name, ")");
      const auto file_name = file.get<std::string>();
      const bool plain = !file_name.empty() && file_name.find('/') == std::string::npos;
      FM_DATA_CHECK(plain, index.string(), ": \"weight_map\" must name files of the folder; ",
                    "correct it (", name, " -> ", file_name, ")");
      const auto [at, fresh] = opened.try_emplace(file_name, files.size());
      if (fresh) files.emplace_back((index.parent_path() / file_name).string(), parse);
      FM_DATA_CHECK(files[at->second].find(name) != nullptr, index.string(), ": tensor ", name,
                    " must be in the file it is mapped to; get the files again (", file_name, ")");
      names.push_back(name);
      where[name] = {at->second, name};
    }
  }
};

HfFolder::HfFolder(const fs::path& folder) : files_(std::make_unique<Files>()) {
  FM_DATA_CHECK(fs::is_directory(folder), "a Hugging Face folder is required; check the path (",
                folder.string(), ")");
  for (const WeightFiles& form : kWeightFiles) {
    if (fs::exists(folder / form.single)) {
      files_->open_single(folder / form.single, form.parse);
      return;
    }
    if (fs::exists(folder / form.index)) {
      files_->open_sharded(folder / form.index, form.parse);
      return;
    }
  }
  const std::string foreign = foreign_folder(folder);
  FM_DATA_CHECK(foreign.empty(), foreign);
  FM_DATA_CHECK(false, "a Hugging Face folder must hold ", kWeightFiles[0].single, " or ",
                kWeightFiles[0].index, "; save the model with safetensors (", folder.string(), ")");
}

HfFolder::~HfFolder() = default;

const std::vector<float>& HfFolder::Files::mean_of(const TensorLocation& at, Growth& growth) const {
  if (!growth.mean.empty()) return growth.mean;
  const std::vector<std::int64_t>& shape = tensor_of(at).shape;
  const std::int64_t width = shape.size() > 1 ? shape[1] : 1;
  constexpr std::int64_t kRowsAtOnce = 256;
  std::vector<double> sums(static_cast<std::size_t>(width));
  std::vector<float> rows;
  for (std::int64_t row = 0; row < growth.stored; row += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, growth.stored - row);
    rows.resize(static_cast<std::size_t>(count * width));
    read_run(at, core::Elements(row * width), rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sums[i % static_cast<std::size_t>(width)] += static_cast<double>(rows[i]);
    }
  }
  for (const double sum : sums) {
    growth.mean.push_back(static_cast<float>(sum / static_cast<double>(growth.stored)));
  }
  return growth.mean;
}

void HfFolder::Files::read_grown(const TensorLocation& at, const core::TensorSlice& slice,
                                 Growth& growth) const {
  const std::vector<std::int64_t>& shape = tensor_of(at).shape;
  std::vector<std::int64_t> expected = shape;
  expected[0] = growth.rows;
  FM_DATA_CHECK(slice.shape == expected, files[at.file].path(), ": tensor ", at.stored,
                " must have the model's shape; check that weights and model config belong "
                "together (",
                shape_text(shape), " with ", growth.rows, " rows is not ", shape_text(slice.shape),
                ")");
  const std::int64_t width = shape.size() > 1 ? shape[1] : 1;
  const std::int64_t stored = growth.stored * width;
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kFill);
    const std::span<float> out = fetched.floats();
    const std::int64_t first = slice.first_of(row).count();
    const auto old =
        static_cast<std::size_t>(std::clamp<std::int64_t>(stored - first, 0, std::ssize(out)));
    read_run(at, core::Elements(first), out.first(old));
    if (old == out.size()) continue;
    const std::vector<float>& mean = mean_of(at, growth);
    for (std::size_t i = old; i < out.size(); ++i) {
      out[i] = mean[(static_cast<std::size_t>(first) + i) % mean.size()];
    }
  }
}

void HfFolder::grow(const std::string& name, std::int64_t stored, std::int64_t rows) {
  const auto found = files_->where.find(name);
  if (found == files_->where.end()) return;
  const std::vector<std::int64_t>& shape = files_->tensor_of(found->second).shape;
  const bool fits = (shape.size() == 1 || shape.size() == 2) && shape[0] == stored;
  if (fits && stored < rows) files_->grown[name] = {.stored = stored, .rows = rows};
}

void HfFolder::rename(const std::string& stored, const std::string& name) {
  auto moved = files_->where.extract(stored);
  FM_CHECK(!moved.empty(), "no tensor ", stored);
  moved.key() = name;
  files_->where.insert(std::move(moved));
  std::ranges::replace(files_->names, stored, name);
}

void HfFolder::stand_in(const std::string& stored, const std::string& absent) {
  const auto found = files_->where.find(stored);
  if (found != files_->where.end()) files_->where.try_emplace(absent, found->second);
}

bool HfFolder::contains(const std::string& name) const { return files_->where.contains(name); }

void HfFolder::read(const core::TensorSlice& slice) const {
  const auto found = files_->where.find(slice.name);
  FM_DATA_CHECK(found != files_->where.end(), files_->files.front().path(), ": tensor ", slice.name,
                " is required; check that weights and model config belong together (",
                files_->names.size(), " other tensors in the folder)");
  const auto grown = files_->grown.find(slice.name);
  if (grown != files_->grown.end()) return files_->read_grown(found->second, slice, grown->second);
  core::TensorSlice stored = slice;
  stored.name = found->second.stored;
  files_->files[found->second.file].read(stored);
}

bool HfFolder::same(const std::string& name, const std::string& other) const {
  const auto a = files_->where.find(name);
  const auto b = files_->where.find(other);
  if (a == files_->where.end() || b == files_->where.end()) return false;
  const TensorFile& others = files_->files[b->second.file];
  return files_->files[a->second.file].same(a->second.stored, others, b->second.stored);
}

std::vector<std::string> HfFolder::names() const { return files_->names; }

HfFolder::RawTensor HfFolder::raw(const std::string& name) const {
  const auto found = files_->where.find(name);
  FM_CHECK(found != files_->where.end(), "no tensor ", name);
  const TensorFile& file = files_->files[found->second.file];
  const StoredTensor* const tensor = file.find(found->second.stored);
  FM_CHECK(tensor != nullptr, "no stored tensor ", found->second.stored);
  return {tensor->dtype, tensor->shape, file.bytes_of(*tensor)};
}

const std::string& HfFolder::stored_type() const {
  const TensorFile& file = files_->files.front();
  for (const StoredTensor& tensor : file.header().tensors) {
    if (tensor.dtype.find('F') != std::string::npos) return tensor.dtype;
  }
  FM_DATA_CHECK(false, file.path(), ": a tensor of floating-point numbers is required; get the ",
                "file again");
}

bool has_tokenizer(const fs::path& folder) {
  const auto names = {"tokenizer_config.json", "tokenizer.json", "tokenizer.model", "vocab.json"};
  return std::ranges::any_of(names, [&](const char* name) { return fs::exists(folder / name); });
}

bool has_foreign_tokenizer(const fs::path& folder) {
  const fs::path config = folder / "tokenizer_config.json";
  if (!fs::exists(config)) return has_tokenizer(folder);
  const nlohmann::json parsed = parse_json_file(config);
  return !parsed.contains(kTokenizerMarker) || parsed[kTokenizerMarker] != "bytes";
}

bool has_byte_tokenizer(const fs::path& folder) {
  if (!has_tokenizer(folder) || has_foreign_tokenizer(folder)) return false;
  const fs::path file = folder / "tokenizer.json";
  FM_DATA_CHECK(
      is_byte_tokenizer(core::MappedFile(file.string()).text()), file.string(),
      ": must be the byte tokenizer that tokenizer_config.json names; get the file again");
  return true;
}

}  // namespace fm::checkpoint

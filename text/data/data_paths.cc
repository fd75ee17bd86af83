#include "text/data/data_paths.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "core/check.h"
#include "core/text.h"
#include "text/data/documents.h"
#include "text/data/formats/megatron.h"

namespace fm::data {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_mds(const fs::path& path) { return is_folder(path) && is_file(path / "index.json"); }

// What the end of a file's name says.
std::optional<DataFormat> format_of_name(const std::string& path) {
  const std::string name = core::lower(path);
  for (const char* const text : {".jsonl", ".json"}) {
    for (const char* const packed : {"", ".gz", ".zst"}) {
      if (name.ends_with(std::string(text) + packed)) return DataFormat::kJsonl;
    }
  }
  for (const char* const ids : {".bin", ".i32", ".npy"}) {
    if (name.ends_with(ids)) return DataFormat::kTokens;
  }
  return std::nullopt;
}

// The files of a folder in the order of their names; hidden ones are none, nor is an index.
std::vector<std::string> files_of(const std::string& folder, DataFormat format) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool known = format != DataFormat::kAuto || format_of_name(name);
    if (entry.is_regular_file() && known && !name.starts_with('.') && !name.ends_with(".idx")) {
      files.push_back(entry.path().string());
    }
  }
  FM_DATA_CHECK(!files.empty(), folder,
                ": a folder of data must hold files that end with .jsonl, .json, .bin, .i32 or "
                ".npy (also .jsonl.gz, .jsonl.zst), or be an MDS dataset with index.json; name "
                "another folder");
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);  // sorted
  }
  ::globfree(&found);
  std::erase_if(paths, [](const std::string& path) { return path.ends_with(".idx"); });
  FM_DATA_CHECK(!paths.empty(),
                "a pattern in data_path must match a file; check it (data_path=", pattern, ")");
  return paths;
}

// The files that one word leads to.
void find_files(const std::string& word, DataFormat format, std::vector<DataFile>& files) {
  std::error_code ignored;
  std::vector<std::string> paths = {word};
  if (!fs::exists(word, ignored) && word.find_first_of("*?[") != word.npos) {
    paths = matches_of(word);
  }
  for (const std::string& path : paths) {
    if (!is_folder(path) || is_mds(path) || format == DataFormat::kMds) {
      files.push_back({path, format_of(path, format)});
      continue;
    }
    for (const std::string& file : files_of(path, format)) {
      files.push_back({file, format_of(file, format)});
    }
  }
}

void check_distinct(const std::vector<DataPart>& parts) {
  std::set<std::string> seen;
  for (const DataPart& part : parts) {
    for (const DataFile& file : part.files) {
      FM_USER_CHECK(seen.insert(fs::path(file.path).lexically_normal().string()).second,
                    "every file of --data_path must be named once; leave one out (", file.path,
                    ")");
    }
  }
}

bool some_file_is(DataFormat format, const std::vector<DataPart>& parts) {
  return std::ranges::any_of(parts, [format](const DataPart& part) {
    return std::ranges::any_of(part.files,
                               [format](const DataFile& file) { return file.format == format; });
  });
}

}  // namespace

std::vector<DataPart> find_data(std::span<const std::string> words, DataFormat format) {
  FM_DATA_CHECK(!words.empty(), "data_path is required; name a file of text or token ids");
  std::error_code ignored;
  std::vector<DataPart> parts;
  if (core::number_of(words[0]) && !fs::exists(words[0], ignored)) {
    FM_USER_CHECK(words.size() % 2 == 0,
                  "--data_path with weights must be WEIGHT PATH WEIGHT PATH ", "...; correct it (",
                  words.size(), " words, the first is the number ", words[0], ")");
    for (std::size_t at = 0; at < words.size(); at += 2) {
      const double weight = core::number_of(words[at]).value_or(0.0);
      FM_USER_CHECK(weight > 0.0 && weight < 1e300,
                    "a weight in --data_path must be a number above 0; correct it (", words[at],
                    " before ", words[at + 1], ")");
      parts.push_back({.weight = weight, .files = {}});
      find_files(words[at + 1], format, parts.back().files);
    }
  } else {
    parts.emplace_back();
    for (const std::string& word : words) find_files(word, format, parts[0].files);
  }
  check_distinct(parts);
  return parts;
}

DataFormat format_of(const std::string& path, DataFormat format) {
  if (format == DataFormat::kAuto && is_mds(path)) return DataFormat::kMds;
  if (format == DataFormat::kAuto && is_megatron(path)) return DataFormat::kMegatron;
  if (format == DataFormat::kAuto) {
    const std::optional<DataFormat> named = format_of_name(path);
    std::error_code ignored;
    FM_DATA_CHECK(named || fs::exists(path, ignored),
                  "data_path must name an existing file; check the path (data_path=", path, ")");
    FM_USER_CHECK(
        named,
        "data_path must end with .jsonl, .json, .bin, .i32 or .npy, or its format must be "
        "named; add --data_format jsonl or --data_format tokens (data_path=",
        path, ")");
    format = *named;
  }
  return format == DataFormat::kJsonl && holds_ids(path) ? DataFormat::kJsonlIds : format;
}

bool reads_text(std::span<const std::string> words, DataFormat format) {
  return some_file_is(DataFormat::kJsonl, find_data(words, format));
}

bool is_flat(std::span<const std::string> words, DataFormat format) {
  return some_file_is(DataFormat::kTokens, find_data(words, format));
}

}  // namespace fm::data

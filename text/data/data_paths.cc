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
#include "text/data/saved_dataset.h"

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

constexpr std::string_view kEndings =
    ".jsonl, .json, .txt, .csv, .tsv (also with .gz or .zst), .parquet, .arrow, .bin, .i32 or .npy";

// What the end of a file's name says.
std::optional<DataFormat> format_of_name(const std::string& path) {
  struct Ending {
    std::string_view end;
    DataFormat format;
    bool packed;  // also with .gz or .zst
  };
  static constexpr Ending kKnown[] = {
      {".jsonl", DataFormat::kJsonl, true},  {".json", DataFormat::kJsonl, true},
      {".txt", DataFormat::kText, true},     {".csv", DataFormat::kCsv, true},
      {".tsv", DataFormat::kTsv, true},      {".parquet", DataFormat::kParquet, false},
      {".arrow", DataFormat::kArrow, false}, {".bin", DataFormat::kTokens, false},
      {".i32", DataFormat::kTokens, false},  {".npy", DataFormat::kTokens, false}};
  const std::string whole = core::lower(path);
  std::string_view name = whole;
  bool packed = false;
  for (const std::string_view end : {".gz", ".zst"}) {
    if (packed || !name.ends_with(end)) continue;
    packed = true;
    name.remove_suffix(end.size());
  }
  for (const Ending& known : kKnown) {
    if (name.ends_with(known.end) && (known.packed || !packed)) return known.format;
  }
  return std::nullopt;
}

RowLayout layout_of(DataFormat format, const RowOptions& rows) {
  switch (format) {
    case DataFormat::kCsv: return RowLayout::kCsv;
    case DataFormat::kTsv: return RowLayout::kTsv;
    case DataFormat::kParquet: return RowLayout::kParquet;
    case DataFormat::kArrow: return RowLayout::kArrow;
    case DataFormat::kText: break;
    case DataFormat::kAuto:
    case DataFormat::kRows:
    case DataFormat::kJsonl:
    case DataFormat::kJsonlIds:
    case DataFormat::kTokens:
    case DataFormat::kMegatron:
    case DataFormat::kMds: return RowLayout::kJsonLines;
  }
  switch (rows.sample_by.value_or(SampleBy::kLine)) {
    case SampleBy::kLine: return RowLayout::kTextLines;
    case SampleBy::kParagraph: return RowLayout::kParagraphs;
    case SampleBy::kDocument: return RowLayout::kWholeFile;
  }
  return RowLayout::kTextLines;
}

// What says of a dataset what is in it.
bool is_about_data(const std::string& name) {
  return name == "dataset_info.json" || name == "dataset_infos.json" ||
         name == "dataset_dict.json" || name == "state.json";
}

// "train" of train-00000-of-00004.parquet, where the name is that of a split.
std::string split_of(const std::string& path) {
  const std::string name = core::lower(fs::path(path).filename().string());
  std::string word = name.substr(0, name.find_first_of("-._"));
  for (const char* const train : {"train", "training"}) {
    if (word == train) return "train";
  }
  for (const char* const other :
       {"test", "testing", "validation", "valid", "val", "dev", "eval", "evaluation"}) {
    if (word == other) return word;
  }
  return "";
}

// What is held out must not be trained.
void check_splits(const std::string& folder, const std::vector<std::string>& files) {
  const auto train =
      std::ranges::find_if(files, [](const auto& file) { return split_of(file) == "train"; });
  const auto other = std::ranges::find_if(files, [](const auto& file) {
    const std::string split = split_of(file);
    return !split.empty() && split != "train";
  });
  if (train == files.end() || other == files.end()) return;
  const auto pattern = [&](const std::string& file) {
    const std::string name = fs::path(file).filename().string();
    return core::concat('\'', (fs::path(folder) / name.substr(0, split_of(file).size())).string(),
                        "*'");
  };
  FM_USER_CHECK(false, folder, ": a folder must hold files of one split; name those to train on, ",
                "--data_path ", pattern(*train), ", and to evaluate with, --eval_data_path ",
                pattern(*other), " (it has ", fs::path(*train).filename().string(), " and ",
                fs::path(*other).filename().string(), ")");
}

// Folders within `folder` that hold files with known endings, for a message.
std::string folders_with_data(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& inner : fs::directory_iterator(folder)) {
    std::error_code unreadable;
    if (!inner.is_directory(unreadable)) continue;
    for (const auto& entry : fs::directory_iterator(inner.path(), unreadable)) {
      const std::string name = entry.path().filename().string();
      if (!format_of_name(name) || is_about_data(name)) continue;
      found.push_back(inner.path().string());
      break;
    }
  }
  std::ranges::sort(found);
  if (found.empty()) return "name another folder";
  return core::concat("name one of those in it that do: ",
                      core::shortened(core::join(found, ", ")));
}

// The files of a folder in the order of their names; hidden ones are none, nor is an index.
std::vector<std::string> files_of(const std::string& folder, DataFormat format) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool known = (format != DataFormat::kAuto && format != DataFormat::kRows) ||
                       (format_of_name(name) && !is_about_data(name));
    if (entry.is_regular_file() && known && !name.starts_with('.') && !name.ends_with(".idx")) {
      files.push_back(entry.path().string());
    }
  }
  FM_DATA_CHECK(!files.empty(), folder, ": a folder of data must hold files that end with ",
                kEndings, ", or be an MDS dataset with index.json; ", folders_with_data(folder));
  std::ranges::sort(files);
  check_splits(folder, files);
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
void find_files(const std::string& word, DataFormat format, const RowOptions& rows,
                std::vector<DataFile>& files) {
  std::error_code ignored;
  std::vector<std::string> paths = {word};
  if (!fs::exists(word, ignored) && word.find_first_of("*?[") != word.npos) {
    paths = matches_of(word);
  }
  const bool may_be_saved =
      format == DataFormat::kAuto || format == DataFormat::kRows || format == DataFormat::kArrow;
  for (const std::string& path : paths) {
    if (!is_folder(path) || is_mds(path) || format == DataFormat::kMds) {
      files.push_back(file_of(path, format, rows));
    } else if (may_be_saved && is_saved_dataset(path)) {
      for (const std::string& file : files_of_saved_dataset(path)) {
        files.push_back(file_of(file, DataFormat::kArrow, rows));
      }
    } else {
      for (const std::string& file : files_of(path, format)) {
        files.push_back(file_of(file, format, rows));
      }
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

std::vector<DataPart> find_data(std::span<const std::string> words, DataFormat format,
                                const RowOptions& rows) {
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
      find_files(words[at + 1], format, rows, parts.back().files);
    }
  } else {
    parts.emplace_back();
    for (const std::string& word : words) find_files(word, format, rows, parts[0].files);
  }
  check_distinct(parts);
  return parts;
}

namespace {

// "tatsu-lab/alpaca": a data set of Hugging Face's hub, by its name.
std::string hub_advice(const std::string& path) {
  const std::size_t slash = path.find('/');
  const bool pair = slash != path.npos && slash > 0 && slash + 1 < path.size() &&
                    path.find('/', slash + 1) == path.npos && path[0] != '.' && path[0] != '~';
  if (!pair) return "check the path";
  return core::concat("check the path, or, if it is a data set of Hugging Face's hub, fetch it: ",
                      "python -c 'from datasets import load_dataset; load_dataset(\"", path,
                      "\", split=\"train\").to_json(\"", path.substr(slash + 1), ".jsonl\")'");
}

DataFormat resolve(const std::string& path, DataFormat format) {
  if (format != DataFormat::kAuto && format != DataFormat::kRows) return format;
  const std::optional<DataFormat> named = format_of_name(path);
  if (format == DataFormat::kRows) {
    return named && *named != DataFormat::kTokens ? *named : DataFormat::kJsonl;
  }
  if (is_mds(path)) return DataFormat::kMds;
  if (is_megatron(path)) return DataFormat::kMegatron;
  std::error_code ignored;
  FM_DATA_CHECK(named || fs::exists(path, ignored), "data_path must name an existing file; ",
                hub_advice(path), " (data_path=", path, ")");
  FM_USER_CHECK(named, "data_path must end with ", kEndings, ", or its format must be named; add ",
                "--data_format jsonl, text, csv or tokens (data_path=", path, ")");
  return *named;
}

}  // namespace

DataFile file_of(const std::string& path, DataFormat format, const RowOptions& rows) {
  DataFile file{.path = path, .format = resolve(path, format)};
  const bool ids = file.format == DataFormat::kTokens || file.format == DataFormat::kMegatron ||
                   file.format == DataFormat::kMds;
  if (ids || file.format == DataFormat::kJsonlIds) return file;
  file.rows = layout_of(file.format, rows);
  file.format =
      holds_ids(path, file.rows, rows.columns) ? DataFormat::kJsonlIds : DataFormat::kJsonl;
  return file;
}

void check_row_options(std::span<const DataPart> parts, const RowOptions& rows) {
  const auto some = [&](const auto& is) {
    return std::ranges::any_of(
        parts, [&](const DataPart& part) { return std::ranges::any_of(part.files, is); });
  };
  const auto has_rows = [](const DataFile& file) {
    return file.format == DataFormat::kJsonl || file.format == DataFormat::kJsonlIds;
  };
  FM_USER_CHECK(rows.columns.empty() || some(has_rows), "--columns needs rows with columns ",
                "(JSONL, CSV, Parquet, Arrow), and no file of the data has columns; leave it out (",
                rows.columns.words(), ")");
  FM_USER_CHECK(!rows.sample_by || some([](const DataFile& file) { return is_text(file.rows); }),
                "--sample_by says what of a .txt file is a document, and there is no such file; ",
                "leave it out, or give --data_format text");
}

bool reads_text(std::span<const std::string> words, DataFormat format, const RowOptions& rows) {
  return some_file_is(DataFormat::kJsonl, find_data(words, format, rows));
}

bool is_flat(std::span<const std::string> words, DataFormat format, const RowOptions& rows) {
  return some_file_is(DataFormat::kTokens, find_data(words, format, rows));
}

}  // namespace fm::data

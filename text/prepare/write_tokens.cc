#include "text/prepare/write_tokens.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "core/check.h"
#include "core/fault.h"
#include "core/files/draft_folder.h"
#include "core/files/durable_file.h"
#include "core/text.h"
#include "text/data/data_paths.h"
#include "text/prepare/file_tokenizer.h"
#include "text/prepare/growing_file.h"
#include "text/prepare/part_writer.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRound{2};  // between two lines of progress

// What a layout makes of documents: files of a folder, which then get their names.
class OutputLayout {
 public:
  virtual ~OutputLayout() = default;
  virtual void add(const TokenizedLines& lines) = 0;
  virtual PartCounts finish() = 0;
};

class FlatLayout final : public OutputLayout {
 public:
  FlatLayout(const fs::path& prefix, std::int32_t eos) : file_(prefix), eos_(eos) {}

  void add(const TokenizedLines& lines) override {
    std::span<const std::int32_t> left = lines.ids;
    for (const std::int32_t length : lines.lengths) {
      const auto document = left.first(static_cast<std::size_t>(length));
      left = left.subspan(document.size());
      file_.put(document);
      const bool ends = !document.empty() && document.back() == eos_;
      if (!ends) file_.put_one(eos_);
      counts_.ids += length + (ends ? 0 : 1);
    }
    counts_.documents += std::ssize(lines.lengths);
  }
  PartCounts finish() override {
    file_.sync();
    counts_.counted = counts_.ids;
    return counts_;
  }

 private:
  GrowingFile file_;
  std::int32_t eos_;
  PartCounts counts_;
};

class MegatronLayout final : public OutputLayout {
 public:
  MegatronLayout(const fs::path& prefix, std::int64_t vocab) : writer_(prefix, vocab) {}

  void add(const TokenizedLines& lines) override { writer_.add(lines); }
  PartCounts finish() override { return writer_.finish(); }

 private:
  PartWriter writer_;
};

// "OUT.bin" means the prefix OUT.
fs::path prefix_of(const WriteOptions& options) {
  const std::string out = fs::absolute(options.out).lexically_normal().string();
  const bool ends = out.ends_with(".bin") || out.ends_with(".idx");
  const bool strip = options.layout == TokenLayout::kMegatron && ends;
  return strip ? out.substr(0, out.size() - 4) : out;
}

std::vector<data::DataFile> text_files(const WriteOptions& options) {
  std::vector<data::DataFile> files;
  const std::vector<data::DataPart> parts =
      data::find_data(options.paths, data::DataFormat::kRows, options.rows);
  data::check_row_options(parts, options.rows);
  for (const data::DataPart& part : parts) {
    FM_USER_CHECK(part.weight == 0.0, "--data_path of fmengine-tokenize must be files without ",
                  "weights; give the weights to fmengine-train (", part.weight, ")");
    for (const data::DataFile& file : part.files) {
      FM_USER_CHECK(file.format == data::DataFormat::kJsonl, file.path,
                    ": text is required, and this has \"input_ids\"; give it to ",
                    "fmengine-train as it is");
      files.push_back(file);
    }
  }
  return files;
}

// A flat file has no place for labels.
ReadLine without_masks(const ReadLine& read_line) {
  return [read_line](std::string_view line, std::vector<data::Document>& documents) {
    std::string problem = read_line(line, documents);
    for (const data::Document& document : documents) {
      const auto ignored = std::ranges::find(document.labels, data::kIgnored);
      if (ignored == document.labels.end() || !problem.empty()) continue;
      problem =
          "a flat file cannot say that a prompt is not trained; write --data_format megatron, or "
          "train on everything with --train_on_inputs";
    }
    return problem;
  };
}

void say_progress(const WriteOptions& options, const std::string& path, std::int64_t bytes,
                  Clock::time_point begin) {
  if (!options.say) return;
  const std::chrono::duration<double> spent = Clock::now() - begin;
  const auto per_second = static_cast<std::int64_t>(static_cast<double>(bytes) / spent.count());
  options.say(core::concat("tokenizing ", path, ": ", core::human(core::Bytes(bytes)), ", ",
                           core::human(core::Bytes(per_second)), "/s"));
}

void check_stop(const WriteOptions& options) {
  FM_MACHINE_CHECK(!options.stop || !options.stop(), core::ExitCode::kPreempted,
                   "stopped by a signal: nothing is left of the new dataset (",
                   options.out.string(), ")");
}

// What has its name is never replaced, whatever it is.
void check_new(const fs::path& path) {
  FM_USER_CHECK(!fs::exists(fs::symlink_status(path)),
                "--out must be new; delete it or choose another name (", path.string(), ")");
}

void add_file(const data::DataFile& file, const WriteOptions& options, const ReadLine& read_line,
              data::BadLines& bad, OutputLayout& layout) {
  const Clock::time_point begin = Clock::now();
  FileTokenizer tokenizer({.path = file.path, .rows = file.rows}, read_line, options.threads);
  const auto add = [&](const TokenizedLines& lines) {
    core::fault({"tokenize.lines"});
    check_stop(options);
    layout.add(lines);
  };
  while (!tokenizer.done() && tokenizer.bad_lines() <= bad.allowed - bad.found) {
    tokenizer.work(bad.allowed - bad.found, Clock::now() + kRound, add);
    say_progress(options, file.path, tokenizer.bytes(), begin);
  }
  count_bad(tokenizer.bad_lines(), tokenizer.first_bad(), bad);
  data::add_unused(tokenizer.unused(), bad.unused);
}

}  // namespace

std::string write_tokens(const WriteOptions& options, const Recipe& recipe) {
  const bool flat = options.layout == TokenLayout::kFlat;
  const fs::path out = prefix_of(options);
  // The one that makes it a dataset last.
  const std::vector<const char*> endings =
      flat ? std::vector<const char*>{""} : std::vector<const char*>{".counted", ".bin", ".idx"};
  for (const char* ending : endings) check_new(with_ending(out, ending));
  FM_USER_CHECK(!flat || recipe.eos >= 0,
                "flat files need an end-of-text id behind each document, "
                "and the tokenizer names no eos_token; name one with --eos_token, or write "
                "--data_format megatron");
  const std::vector<data::DataFile> files = text_files(options);
  check_stop(options);  // the first question: from now on who asks removes the draft
  core::sweep_drafts(out.parent_path(), out.filename().string());
  const core::DraftFolder draft(out.parent_path(), out.filename().string());
  const fs::path made = draft.path() / "tokens";
  std::unique_ptr<OutputLayout> layout;
  if (flat) {
    layout = std::make_unique<FlatLayout>(made, recipe.eos);
  } else {
    layout = std::make_unique<MegatronLayout>(made, recipe.vocab);
  }
  data::BadLines bad{.allowed = options.skip_bad_lines, .found = 0, .first = ""};
  const ReadLine read_line = flat ? without_masks(recipe.read_line) : recipe.read_line;
  for (const data::DataFile& file : files) add_file(file, options, read_line, bad, *layout);
  const PartCounts counts = layout->finish();
  check_stop(options);
  FM_DATA_CHECK(counts.documents > 0, files.front().path, ":1: at least one document is required; ",
                "give a file with some (", core::counted(bad.found, "bad line"), ")");
  for (const char* ending : endings) {
    const fs::path from = with_ending(made, ending);
    const fs::path to = with_ending(out, ending);
    std::error_code error;
    if (fs::exists(from)) fs::rename(from, to, error);
    FM_MACHINE_CHECK(!error, core::ExitCode::kStorageFailed, "storage must take what is written; ",
                     "check permissions (rename to ", to.string(), ": ", error.message(), ")");
  }
  core::sync_folder(out.parent_path());
  std::string text =
      core::concat(options.out.string(), ": ", core::counted(counts.documents, "document"), ", ",
                   core::human_count(static_cast<double>(counts.ids)), " tokens");
  if (counts.counted < counts.ids) {
    text +=
        core::concat(", ", core::human_count(static_cast<double>(counts.counted)), " trained on");
  }
  if (bad.found > 0) {
    text += core::concat("; ", core::counted(bad.found, "bad line"),
                         " skipped (the first: ", bad.first, ")");
  }
  return text + data::words_of(bad.unused);
}

}  // namespace fm::prepare

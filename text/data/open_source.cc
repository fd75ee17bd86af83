#include "core/check.h"
#include "core/text.h"
#include "text/data/data_paths.h"
#include "text/data/document_choice.h"
#include "text/data/documents.h"
#include "text/data/formats/mds.h"
#include "text/data/formats/megatron.h"
#include "text/data/formats/token_files.h"
#include "text/data/id_rows.h"
#include "text/data/mixture.h"
#include "text/data/sample_source.h"

namespace fm::data {
namespace {

StreamPtr open_lines(const DataFile& file, const SourceOptions& options, BadLines& bad) {
  if (options.open_jsonl) {
    if (StreamPtr stream = options.open_jsonl(file, bad)) return stream;
  }
  return file.format == DataFormat::kJsonl ? open_text(file, options, bad)
                                           : open_ids(file, options, bad);
}

StreamPtr open_file(const DataFile& file, const SourceOptions& options, BadLines& bad) {
  switch (file.format) {
    case DataFormat::kJsonl:
    case DataFormat::kJsonlIds: return open_lines(file, options, bad);
    case DataFormat::kTokens: return open_tokens(file.path, options);
    case DataFormat::kMegatron: return open_megatron(file.path, options);
    case DataFormat::kMds: return open_mds(file.path, options, bad.unused);
    case DataFormat::kAuto:
    case DataFormat::kRows:
    case DataFormat::kText:
    case DataFormat::kCsv:
    case DataFormat::kTsv:
    case DataFormat::kParquet:
    case DataFormat::kArrow: break;
  }
  FM_CHECK(false, "data format was not resolved");
}

StreamPtr open_part(const DataPart& part, const SourceOptions& options, BadLines& bad) {
  std::vector<StreamPtr> streams;
  for (const DataFile& file : part.files) streams.push_back(open_file(file, options, bad));
  return join_streams(std::move(streams));
}

// Where each path gives so many documents, each is a part of its own.
std::vector<DataPart> parts_of(const SourceOptions& options, const Split& split) {
  std::vector<DataPart> parts = find_data(options.paths, options.format, options.rows);
  const bool limited =
      split.most_training > 0 || (split.evaluation > 0.0 && split.most_evaluation > 0);
  if (!limited || parts.front().weight > 0.0) return parts;
  parts.clear();
  for (const std::string& path : options.paths) {
    parts.push_back(find_data({&path, 1}, options.format, options.rows).front());
  }
  return parts;
}

constexpr const char* kMostEvaluation = "--max_eval_samples";

std::string notes_of(const BadLines& bad) {
  std::string unused = words_of(bad.unused);
  if (bad.found == 0) return unused;
  return core::concat("; ", core::counted(bad.found, "bad line"),
                      " skipped (the first: ", bad.first, ")", unused);
}

}  // namespace

SplitSource open_split(const SourceOptions& options, const Split& split) {
  FM_USER_CHECK(options.seq_len >= 1,
                "max_seq_len must be at least 1; correct it (max_seq_len=", options.seq_len, ")");
  FM_USER_CHECK(options.vocab >= 1, "vocab_size must be at least 1; correct the model's config ",
                "(vocab_size=", options.vocab, ")");
  BadLines bad{.allowed = options.skip_bad_lines, .found = 0, .first = ""};
  std::vector<StreamPtr> streams;
  std::vector<double> weights;
  for (const DataPart& part : parts_of(options, split)) {
    streams.push_back(open_part(part, options, bad));
    if (part.weight > 0.0) weights.push_back(part.weight);
  }
  const std::string notes = notes_of(bad);
  std::vector<StreamPtr> trained;
  std::vector<StreamPtr> held_out;
  const double border = split.training + split.evaluation;
  const auto part_of = [&](const StreamPtr& stream, double begin, double end) {
    return split.shuffled ? choose_documents(stream, begin, end, options.seed)
                          : slice_stream(stream, begin, end);
  };
  for (const StreamPtr& stream : streams) {
    trained.push_back(first_documents(part_of(stream, 0.0, split.training), split.most_training,
                                      options.mixes ? "--max_train_samples" : kMostEvaluation));
    if (split.evaluation > 0.0) {
      held_out.push_back(first_documents(part_of(stream, split.training, border),
                                         split.most_evaluation, kMostEvaluation));
    }
  }
  const bool mixed = options.mixes && weights.size() > 1;
  if (!mixed) trained = {join_streams(std::move(trained))};
  std::vector<std::unique_ptr<SampleSource>> rows;
  for (const StreamPtr& stream : trained) {
    const bool last = rows.size() + 1 == trained.size();
    rows.push_back(make_rows(stream, options, last ? notes : ""));
  }
  SplitSource opened;
  opened.training = mixed ? make_mixture(std::move(rows), weights) : std::move(rows.front());
  if (split.evaluation > 0.0) {
    SourceOptions plain = options;
    plain.shuffle_windows = false;  // in an evaluation all rows count alike
    opened.evaluation = make_rows(join_streams(std::move(held_out)), plain, "");
  }
  return opened;
}

std::unique_ptr<SampleSource> open_source(const SourceOptions& options) {
  return open_split(options, {}).training;
}

}  // namespace fm::data

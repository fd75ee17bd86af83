#include "core/check.h"
#include "core/text.h"
#include "data/document_rows.h"
#include "data/sample_source.h"
#include "data/token_rows.h"

namespace fm::data {
namespace {

bool has_suffix(std::string_view name, std::string_view suffix) { return name.ends_with(suffix); }

DataFormat format_of(const SourceOptions& options) {
  if (options.format != DataFormat::kAuto) return options.format;
  const std::string name = core::lower(options.path);
  if (has_suffix(name, ".jsonl") || has_suffix(name, ".json")) return DataFormat::kJsonl;
  if (has_suffix(name, ".bin") || has_suffix(name, ".i32")) return DataFormat::kTokensI32;
  FM_DATA_CHECK(
      false, "data_path must end with .jsonl, .json, .bin or .i32, or its format must be ",
      "named; add --data_format jsonl or --data_format tokens_i32 (data_path=", options.path, ")");
}

}  // namespace

std::unique_ptr<SampleSource> open_source(const SourceOptions& options) {
  FM_DATA_CHECK(!options.path.empty(), "data_path is required; name a JSONL or a token file");
  FM_USER_CHECK(options.seq_len >= 1,
                "max_seq_len must be at least 1; correct it (max_seq_len=", options.seq_len, ")");
  FM_USER_CHECK(options.vocab >= 1, "vocab_size must be at least 1; correct the model's config ",
                "(vocab_size=", options.vocab, ")");
  switch (format_of(options)) {
    case DataFormat::kJsonl: return open_documents(options);
    case DataFormat::kTokensI32: return open_tokens(options);
    case DataFormat::kAuto: break;
  }
  FM_CHECK(false, "data format was not resolved");
}

}  // namespace fm::data

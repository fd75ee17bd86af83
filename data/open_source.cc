#include <filesystem>

#include "core/check.h"
#include "core/text.h"
#include "data/documents.h"
#include "data/sample_source.h"
#include "data/token_files.h"

namespace fm::data {
DataFormat format_of(const std::string& path, DataFormat format) {
  if (format != DataFormat::kAuto) return format;
  const std::string name = core::lower(path);
  if (name.ends_with(".jsonl") || name.ends_with(".json")) return DataFormat::kJsonl;
  if (name.ends_with(".bin") || name.ends_with(".i32") || name.ends_with(".npy")) {
    return DataFormat::kTokens;
  }
  std::error_code ignored;
  FM_DATA_CHECK(std::filesystem::exists(path, ignored),
                "data_path must name an existing file; check the path (data_path=", path, ")");
  FM_USER_CHECK(false,
                "data_path must end with .jsonl, .json, .bin, .i32 or .npy, or its format must be ",
                "named; add --data_format jsonl or --data_format tokens (data_path=", path, ")");
}

std::unique_ptr<SampleSource> open_source(const SourceOptions& options) {
  FM_DATA_CHECK(!options.path.empty(), "data_path is required; name a JSONL or a token file");
  FM_USER_CHECK(options.seq_len >= 1,
                "max_seq_len must be at least 1; correct it (max_seq_len=", options.seq_len, ")");
  FM_USER_CHECK(options.vocab >= 1, "vocab_size must be at least 1; correct the model's config ",
                "(vocab_size=", options.vocab, ")");
  switch (format_of(options.path, options.format)) {
    case DataFormat::kJsonl: return open_documents(options);
    case DataFormat::kTokens: return open_tokens(options);
    case DataFormat::kAuto: break;
  }
  FM_CHECK(false, "data format was not resolved");
}

}  // namespace fm::data

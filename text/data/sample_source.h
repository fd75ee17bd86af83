// Where samples come from: a deterministic endless global order of rows of seq_len tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/check.h"
#include "core/ledger.h"
#include "text/data/columns.h"
#include "text/data/id_array.h"

namespace fm::data {

inline constexpr std::int32_t kIgnored = -100;  // label that is not counted

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::int64_t samples_per_epoch() const = 0;
  // The row at `position` (0-based, endless: epoch = position / samples_per_epoch) of the global
  // order: shuffled by (seed, epoch), or that of the file. Both spans hold seq_len ids. Pure: any
  // rank may ask for any position, any number of times.
  virtual void read(std::int64_t position, std::span<std::int32_t> tokens_T,
                    std::span<std::int32_t> labels_T) const = 0;
  // Where in that row documents begin, ascending from 0: a row that begins within one counts as its
  // begin. One alone where documents are not known.
  virtual std::vector<std::int32_t> document_starts(std::int64_t /*position*/) const { return {0}; }
  virtual std::string describe() const = 0;  // one line for the banner
  // What people should know of the rows, a sentence each. May walk over all documents and rows.
  virtual std::vector<std::string> notes() const { return {}; }
  // Of the row at `position`, for people: "document 5" of the data, from 1.
  virtual std::string name_of(std::int64_t position) const {
    return core::concat("row ", position % samples_per_epoch() + 1);
  }
  // Whatever decides the rows and their order; not where the file lies, which may be moved.
  virtual std::string fingerprint() const = 0;
};

enum class DataFormat : std::uint8_t {
  kAuto,  // text/data/data_paths.h
  // What files of rows hold:
  kJsonl,     // text
  kJsonlIds,  // ids
  // What may be asked for, and comes out as one of these two:
  kRows,  // kAuto for text alone: what a name does not tell is JSONL
  kText,
  kCsv,
  kTsv,
  kParquet,
  kArrow,
  // Ids:
  kTokens,
  kMegatron,
  kMds
};
enum class Packing : std::uint8_t {  // text/data/packing.h
  kConcat,                           // documents behind each other, cut into rows of seq_len + 1
  kOneDocument,                      // FMEngine: one document per sample, truncated or padded
  kBestFit,                          // whole documents side by side
};

// The parts of the data for training and for evaluation, in shares of 1: its first documents in
// their order, then the next ones (of ids, where documents are not known). `shuffled`: the first
// and the next ones of an order that follows from the seed; in a part they keep their order.
struct Split {
  double training = 1.0;
  double evaluation = 0.0;
  bool shuffled = false;
  // Of each path's part the first documents, so many; 0: all.
  std::int64_t most_training = 0;
  std::int64_t most_evaluation = 0;
};

// Tokens at which a model's generation stops; none: nobody names them.
struct EndTokens {
  std::vector<std::int32_t> ids = {};
  std::string words = {};  // "</s>" (2), for people
};

class TokenStream;
struct BadLines;
struct DataFile;  // text/data/data_paths.h
// Opens a file of rows (kJsonl or kJsonlIds) in a way of the caller's: by another tokenizer than
// that of bytes, or without holding it in memory. Null: it has none for this file.
using OpenJsonl =
    std::function<std::shared_ptr<const TokenStream>(const DataFile& file, BadLines& bad)>;

struct SourceOptions {
  // Files, folders, patterns and prefixes of Megatron's datasets; with numbers before each, as in
  // Megatron's "0.3 a 0.7 b", a mixture of so many samples of each.
  std::vector<std::string> paths = {};
  bool mixes = true;  // false: numbers choose nothing, and every row counts once
  DataFormat format = DataFormat::kAuto;  // text/data/data_paths.h
  TokenType token_type = TokenType::kAuto;
  Packing packing = Packing::kConcat;
  bool needs_documents = false;  // UserError (10) where nothing tells where they begin
  std::string text_field = "text";
  RowOptions rows = {};
  OpenJsonl open_jsonl = {};  // may be null: bytes are ids, and all is held in memory
  std::int64_t seq_len = 128;
  std::int64_t vocab = 0;  // ids must be below; UserError (11) with file and position otherwise
  bool shuffle_windows = false;     // where documents are not known, anew in each epoch
  std::int64_t skip_bad_lines = 0;  // lines of JSONL files, of all together
  std::uint64_t seed = 3407;
  EndTokens ends = {};  // a note says where no document trains one
  core::Ledger* ledger = nullptr;
};

// All rows. Throws UserError (10, 11) naming file and line: what is required, what to do, the
// value.
std::unique_ptr<SampleSource> open_source(const SourceOptions& options);

struct SplitSource {
  std::unique_ptr<SampleSource> training;
  std::unique_ptr<SampleSource> evaluation;  // every row once per epoch; null where it has no share
};
// The same, the data read once for both.
SplitSource open_split(const SourceOptions& options, const Split& split);

}  // namespace fm::data

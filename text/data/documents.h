// Documents of JSONL files as ids: one JSON object per line (JSON Lines) is one document.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/text.h"
#include "text/data/columns.h"
#include "text/data/row_lines.h"
#include "text/data/sample_source.h"
#include "text/data/token_stream.h"
#include "text/data/unused_field_counts.h"

namespace fm::data {

struct DataFile;

struct Document {
  std::vector<std::int32_t> ids;
  // As many as ids, kIgnored where the loss does not count one; none at all: every id counts.
  std::vector<std::int32_t> labels;
  std::vector<std::string> unused;  // fields of the line that had no effect
};

// Makes the document of one line. Returns what is wrong with the line, or "".
using LineReader = std::function<std::string(std::string_view line, Document& document)>;

// {"text": "..."}: its UTF-8 bytes, then EOS; `field` is the name of the text.
LineReader text_reader(const std::string& field, const Columns& columns = {});
// {"input_ids": [...], "labels": [...], "attention_mask": [...], ...} (text/data/row_fields.h): ids
// below `vocab`, labels (the ids themselves where there are none) not shifted, as in Hugging Face's
// datasets; what the mask has 0 for is left out. Nothing is added.
LineReader ids_reader(std::int64_t vocab, const Columns& columns = {});
// Whether the first row of a file has "input_ids". False of a file that is not there. UserError
// (11) for a file without a line that is a JSON object, naming its first one.
bool holds_ids(const std::string& path, RowLayout layout = RowLayout::kJsonLines,
               const Columns& columns = {});
// The same of one line. Returns why it is no JSON object, or "".
std::string find_input_ids(std::string_view line, const Columns& columns, bool& found);
// What a line that holds no row says is wrong with it (kBadRow), or "".
std::string problem_in(std::string_view line);

// So much memory is asked for before a line is known to end: a compressed file may hold more than
// any machine has.
inline constexpr std::size_t kMostLineBytes = 256'000'000;
// `place` says "file:line". Throws UserError (11) for more bytes than that.
void check_line(std::size_t bytes, const std::function<std::string()>& place);

// Lines that are no documents: so many are left out, the next one is an error.
struct BadLines {
  std::int64_t allowed = 0;
  std::int64_t found = 0;
  std::string first;         // "file:line: what is wrong"
  UnusedFields unused = {};  // of the other lines
};

// Calls `on_document` with the document of every line of the text, in order. Lines end with \n or
// \r\n; blank lines are skipped. UserError (11) says `file_name`:line for one bad line too many,
// and for a file without documents.
void read_jsonl(const NextPiece& next_piece, const std::string& file_name,
                const LineReader& read_line, BadLines& bad,
                const std::function<void(const Document&)>& on_document);

// The built-in tokenizer: the UTF-8 bytes of a text are its ids (core/text.h). No merges, no
// normalisation, nothing added: decode(encode(text)) == text for every text.
std::vector<std::int32_t> encode_bytes(std::string_view text);
// Special ids and ids beyond the byte vocabulary decode to nothing.
std::string decode_bytes(std::span<const std::int32_t> ids);

// A file of rows, compressed or not, held in memory. Throws UserError (11), see read_jsonl.
StreamPtr open_text(const DataFile& file, const SourceOptions& options, BadLines& bad);
StreamPtr open_ids(const DataFile& file, const SourceOptions& options, BadLines& bad);

// A corpus as one stream of ids in memory: two bytes per id where the vocabulary fits.
//
// Invariant: chunks are full but the last; ids are appended once and never change.
// Thread:    built by one thread, then read by any.
// Lifetime:  the ledger outlives it.
class TokenStore {
 public:
  // Ids will be in [0, vocab). Memory is charged to the ledger's account kData.
  TokenStore(core::Ledger& ledger, std::int64_t vocab);

  void append(std::span<const std::int32_t> ids);
  std::int64_t size() const { return size_; }
  // Ids [first, first + ids.size()) of the stream.
  void read(std::int64_t first, std::span<std::int32_t> ids) const;

 private:
  core::Ledger* ledger_;
  bool narrow_;  // uint16 instead of int32
  std::int64_t size_ = 0;
  std::vector<core::Buffer> chunks_;
};

}  // namespace fm::data

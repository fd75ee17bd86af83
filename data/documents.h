// Documents of a JSONL file as ids, and rows made of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.h"
#include "core/text.h"
#include "data/sample_source.h"

namespace fm::data {

// Rows made of the documents of a JSONL file, tokenised once when it is opened.
//
// kConcat: every document, in file order, followed by one EOS, makes one stream. Row r is the
// stream's ids [r (T+1), (r+1) (T+1)); the ids after the last whole row are dropped (as in
// Hugging Face's group_texts with block size T+1).
// kOneDocument: row r is the r-th document that is not empty: its first T+1 ids; a shorter one is
// followed by one EOS and then by padding. So EOS is there exactly when the document has at most
// T ids, and is a target; padding never is (label kIgnored).
// Either way tokens are row[0, T), labels are row[1, T+1), and the order of the rows in epoch e is
// Permutation(rows, seed, e); epoch 0 is shuffled too.

// Throws UserError (11), see open_source.
std::unique_ptr<SampleSource> open_documents(const SourceOptions& options);

// JSON Lines: one object per line, one string field of it is a document.

// The next piece of a text, wherever it is cut; empty at the end. Valid until the next call.
using NextPiece = std::function<std::string_view()>;

// Calls `on_document` with field `field` (its UTF-8 text) of every line of the text, in order.
// Lines end with \n or \r\n; blank lines are skipped. UserError (11) says `file_name`:line for a
// line that is no JSON object, is not UTF-8, lacks the field, has it twice or not as a string, and
// for a file without documents. The view given to `on_document` lives for that call only.
void read_jsonl(const NextPiece& next_piece, const std::string& file_name, std::string_view field,
                const std::function<void(std::string_view)>& on_document);

// The built-in tokenizer: the UTF-8 bytes of a text are its ids (core/text.h). No merges, no
// normalisation, nothing added: decode(encode(text)) == text for every text.
std::vector<std::int32_t> encode_bytes(std::string_view text);
// Special ids and ids beyond the byte vocabulary decode to nothing.
std::string decode_bytes(std::span<const std::int32_t> ids);

// The corpus as one stream of ids in memory: two bytes per id where the vocabulary fits.
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

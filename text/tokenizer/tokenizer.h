// Text to token ids and back, as Hugging Face's tokenizers and SentencePiece do it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file_texts.h"
#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

enum class SpecialTokens : std::uint8_t {
  kAdd,   // encode: those of the template, such as BOS before a text
  kNone,  // encode: the text only
};
enum class Skip : std::uint8_t { kNothing, kSpecial };  // decode: special tokens are left out

// Ids that a folder names; kNoToken where it names none.
struct SpecialIds {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId pad = kNoToken;
  TokenId unk = kNoToken;
  std::vector<TokenId> ends;  // any of them ends a generated text: eos and generation_config.json's
};

struct AddedToken;  // text/tokenizer/added_tokens.h
struct TextPart;
struct TokenizerParts;  // text/tokenizer/parts.h
struct Workspace;

// Invariant: the parts never change. Ids are those of the tokenizers wheel 0.23 (tokenizer.json;
//            vocab.json and merges.txt) or of the sentencepiece wheel 0.2 (tokenizer.model).
// Thread:    any, several at once: each call borrows a workspace of its own.
// Lifetime:  a StreamDecoder must not outlive it.
class Tokenizer {
 public:
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  // Bytes of `text` that are no UTF-8 count as U+FFFD, as Python's errors="replace" makes them.
  std::vector<TokenId> encode(std::string_view text,
                              SpecialTokens special = SpecialTokens::kAdd) const;
  // The same, appended.
  void encode(std::string_view text, SpecialTokens special, std::vector<TokenId>& ids) const;

  // Ids without a token are left out.
  std::string decode(std::span<const TokenId> ids, Skip skip = Skip::kSpecial) const;

  // Tokens with an id, added ones included: len(tokenizer) in transformers.
  std::int64_t vocab_size() const;
  // Above every id: an embedding of so many rows has one for each.
  std::int64_t id_limit() const;
  // Above every id but those of added tokens behind the others: what an embedding needs at least.
  // Gemma 3 has an added token of images without a row in its models of text.
  std::int64_t plain_limit() const;
  // kNoToken: there is no such token.
  TokenId token_to_id(std::string_view token) const;
  // nullopt: the id has no token.
  std::optional<std::string> id_to_token(TokenId id) const;
  // AddedTokens::with_spaces (text/tokenizer/added_tokens.h).
  TextPart with_spaces(std::string_view text, TextPart stands, std::size_t from) const;
  // All added tokens by their ids, with special ones more, or some made special.
  std::map<TokenId, AddedToken> added_with(const std::vector<std::string>& more) const;
  const SpecialIds& special_ids() const;
  // Changes when any file that decides about ids changes: 16 hexadecimal digits.
  const std::string& identity() const;
  // The files that it was made of and those beside them that belong to it, for an export.
  const std::vector<std::string>& files() const;

 private:
  std::unique_ptr<Workspace> borrow() const;
  void give_back(std::unique_ptr<Workspace> space) const;

  std::unique_ptr<const TokenizerParts> parts_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> spaces_;  // that nobody uses
};

// A folder with tokenizer.json, else vocab.json and merges.txt, else tokenizer.model; or one file
// *.json or of SentencePiece. Special tokens are read from tokenizer_config.json,
// special_tokens_map.json and generation_config.json beside it. Throws UserError (11) naming the
// file and the component that is wrong or not supported. `texts` are those of files of the folder
// that count instead of what is on the disk.
std::unique_ptr<const Tokenizer> open_tokenizer(const std::string& path,
                                                const core::FileTexts& texts = {});

// Text of ids that come one by one. A part of a character waits until it is whole.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, Skip skip = Skip::kSpecial)
      : tokenizer_(&tokenizer), skip_(skip) {}

  // What this id adds to the text, "" while that is not sure.
  std::string put(TokenId id);
  // What still waits, at the end.
  std::string finish();

 private:
  std::string behind_prefix(const std::string& text) const;

  const Tokenizer* tokenizer_;
  Skip skip_;
  std::vector<TokenId> ids_;  // those that the text behind them may depend on
  std::string prefix_;        // their text that has been given out
  std::size_t prefix_ids_ = 0;
};

}  // namespace fm::tokenizer

// SentencePiece's tokenizer.model: a protobuf message, of which a few fields matter
// (sentencepiece_model.proto). Read by hand: libprotobuf would meet LibTorch's copy of itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"

namespace fm::tokenizer {

enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SentencePieceModel {
  std::string where;
  std::vector<SentencePiece> pieces;  // by id
  bool is_bpe = false;                // otherwise unigram
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::int64_t bos_id = 1;  // -1: none
  std::int64_t eos_id = 2;
  std::int64_t pad_id = -1;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool only_at_start = false;  // ..which then stands before the first character of a text alone
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  // Found among the pieces.
  TokenId unk_id = kNoToken;
  TokenId byte_ids[256];
};

// Throws UserError (11) with `where` for a message that is cut, wrong or not supported.
SentencePieceModel read_sentencepiece_model(const std::string& bytes, const std::string& where);

}  // namespace fm::tokenizer

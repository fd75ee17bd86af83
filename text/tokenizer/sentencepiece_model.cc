#include "text/tokenizer/sentencepiece_model.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "core/check.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

// Protobuf's wire format: fields <varint (number << 3 | kind)> <value>.
class Wire {
 public:
  Wire(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t tag = varint();
    field_ = tag >> 3;
    kind_ = tag & 7;
    value_ = 0;
    text_ = {};
    switch (kind_) {
      case 0: value_ = varint(); break;
      case 1: take(8); break;
      case 2: text_ = take(varint()); break;
      case 5: text_ = take(4); break;
      default: refuse();  // groups have gone from protobuf
    }
    return true;
  }
  std::uint64_t field() const { return field_; }
  std::int64_t whole() const {
    if (kind_ != 0) refuse();
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(value_));
  }
  bool flag() const { return whole() != 0; }
  std::string_view text() const {
    if (kind_ != 2) refuse();
    return text_;
  }
  float number() const {
    float value = 0;
    if (kind_ != 5) refuse();
    std::memcpy(&value, text_.data(), sizeof(value));
    return value;
  }

 private:
  [[noreturn]] void refuse() const {
    throw core::UserError(
        core::ExitCode::kDataError,
        core::concat(where_, ": a SentencePiece model is required; fetch the file again (field ",
                     field_, " of kind ", kind_, ", ", bytes_.size(), " bytes before its end)"));
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse();
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) refuse();
    const std::string_view taken = bytes_.substr(0, static_cast<std::size_t>(size));
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view bytes_;
  const std::string& where_;
  std::uint64_t field_ = 0;
  std::uint64_t kind_ = 0;
  std::uint64_t value_ = 0;
  std::string_view text_;
};

SentencePiece read_piece(Wire wire, const std::string& where) {
  SentencePiece piece;
  while (wire.next()) {
    if (wire.field() == 1) piece.text = wire.text();
    if (wire.field() == 2) piece.score = wire.number();
    if (wire.field() == 3) {
      const std::int64_t type = wire.whole();
      FM_DATA_CHECK(type >= 1 && type <= 6, where, ": piece types are 1 to 6; fetch it again (",
                    type, ")");
      piece.type = static_cast<PieceType>(type);
    }
  }
  FM_DATA_CHECK(!piece.text.empty() && valid_utf8(piece.text) == piece.text.size() &&
                    std::isfinite(piece.score),
                where,
                ": every piece must have a text in UTF-8 and a finite score; fetch it again (",
                piece.text, ", ", piece.score, ")");
  return piece;
}

void read_trainer(Wire wire, SentencePieceModel& model) {
  std::int64_t type = 1;
  while (wire.next()) {
    switch (wire.field()) {
      case 3: type = wire.whole(); break;
      case 24: model.whitespace_as_suffix = wire.flag(); break;
      case 35: model.byte_fallback = wire.flag(); break;
      case 41: model.bos_id = wire.whole(); break;
      case 42: model.eos_id = wire.whole(); break;
      case 43: model.pad_id = wire.whole(); break;
      case 44: model.unk_surface = wire.text(); break;
      default: break;  // how it was trained
    }
  }
  FM_DATA_CHECK(type == 1 || type == 2, model.where, ": model type ",
                type == 3   ? "WORD"
                : type == 4 ? "CHAR"
                            : std::to_string(type),
                " is not supported; UNIGRAM and BPE are");
  model.is_bpe = type == 2;
}

void read_normalizer_spec(Wire wire, SentencePieceModel& model) {
  while (wire.next()) {
    switch (wire.field()) {
      case 2: model.charsmap = wire.text(); break;
      case 3: model.add_dummy_prefix = wire.flag(); break;
      case 4: model.remove_extra_whitespaces = wire.flag(); break;
      case 5: model.escape_whitespaces = wire.flag(); break;
      default: break;  // its name
    }
  }
}

void refuse_denormalizer(Wire wire, const std::string& where) {
  while (wire.next()) {
    FM_DATA_CHECK(wire.field() != 2 || wire.text().empty(), where,
                  ": a denormalizer_spec with rules is not supported");
  }
}

void find_special_pieces(SentencePieceModel& model) {
  const std::string& where = model.where;
  std::fill(std::begin(model.byte_ids), std::end(model.byte_ids), kNoToken);
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    FM_DATA_CHECK(seen.insert(piece.text).second, where,
                  ": every piece must be there once; fetch it again (", piece.text, ")");
    const auto id = static_cast<TokenId>(i);
    if (piece.type == PieceType::kUnknown) {
      FM_DATA_CHECK(model.unk_id == kNoToken, where, ": one unknown piece is required, not two");
      model.unk_id = id;
    }
    if (piece.type != PieceType::kByte) continue;
    unsigned byte = 0;
    char end = '\0';
    const bool good = piece.text.size() == 6 &&
                      std::sscanf(piece.text.c_str(), "<0x%2X%c", &byte, &end) == 2 && end == '>';
    FM_DATA_CHECK(good, where, ": a byte piece is <0x00> to <0xFF>; fetch it again (", piece.text,
                  ")");
    model.byte_ids[byte] = id;
  }
  FM_DATA_CHECK(model.unk_id != kNoToken, where, ": an unknown piece is required; fetch it again");
  for (const TokenId id : model.byte_ids) {
    FM_DATA_CHECK(!model.byte_fallback || id != kNoToken, where,
                  ": byte_fallback requires 256 byte pieces; fetch it again");
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::string& bytes, const std::string& where) {
  SentencePieceModel model;
  model.where = where;
  Wire wire(bytes, where);
  while (wire.next()) {
    if (wire.field() == 1) model.pieces.push_back(read_piece({wire.text(), where}, where));
    if (wire.field() == 2) read_trainer({wire.text(), where}, model);
    if (wire.field() == 3) read_normalizer_spec({wire.text(), where}, model);
    if (wire.field() == 5) refuse_denormalizer({wire.text(), where}, where);
  }
  FM_DATA_CHECK(!model.pieces.empty() && model.pieces.size() < kMostIds, where,
                ": pieces are required; fetch it again (", model.pieces.size(), ")");
  find_special_pieces(model);
  return model;
}

}  // namespace fm::tokenizer

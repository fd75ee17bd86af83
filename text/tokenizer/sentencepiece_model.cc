#include "text/tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "core/check.h"
#include "text/tokenizer/open_tokenizer.h"
#include "text/tokenizer/sentencepiece_bpe.h"
#include "text/tokenizer/unicode/charsmap.h"
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

TextTrie pieces_of(const SentencePieceModel& model, bool (*wanted)(PieceType)) {
  std::vector<std::pair<std::string, std::int32_t>> texts;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (wanted(piece.type)) texts.emplace_back(piece.text, static_cast<TokenId>(id));
  }
  return TextTrie(std::move(texts));
}

bool is_user_defined(PieceType type) { return type == PieceType::kUserDefined; }
bool is_found_in_text(PieceType type) {
  return type == PieceType::kNormal || type == PieceType::kUserDefined;
}

// The rules of the model, and what becomes of white space.
class SpaceNormalizer {
 public:
  explicit SpaceNormalizer(const SentencePieceModel& model)
      : user_defined_(pieces_of(model, is_user_defined)),
        removes_(model.remove_extra_whitespaces),
        only_at_start_(model.only_at_start),
        space_(model.escape_whitespaces ? kMetaSpace : " "),
        prefix_(model.add_dummy_prefix && !model.whitespace_as_suffix ? space_ : ""),
        suffix_(model.add_dummy_prefix && model.whitespace_as_suffix ? space_ : "") {
    if (!model.charsmap.empty()) map_ = Charsmap(model.charsmap, model.where);
  }

  void apply(std::string_view text, bool at_start, std::string& made) const {
    made.clear();
    const std::size_t whole = text.size();
    while (removes_ && !text.empty()) {
      const Charsmap::Rule rule = next(text);
      if (rule.replacement != " ") break;
      text.remove_prefix(rule.size);
    }
    if (text.empty()) return;
    made = only_at_start_ && text.size() < whole ? space_ : before(text, at_start);
    bool after_space = removes_;
    while (!text.empty()) {
      const Charsmap::Rule rule = next(text);
      std::string_view part = rule.replacement;
      while (after_space && part.starts_with(' ')) part.remove_prefix(1);
      for (const char letter : part) {
        if (letter == ' ') {
          made += space_;
        } else {
          made += letter;
        }
      }
      if (!part.empty()) after_space = removes_ && part.ends_with(' ');
      text.remove_prefix(rule.size);
    }
    while (removes_ && made.ends_with(space_)) made.resize(made.size() - space_.size());
    made += suffix_;
  }

 private:
  // What stands before `text`.
  std::string before(std::string_view text, bool at_start) const {
    if (!only_at_start_) return prefix_;
    const std::string_view first = next(text).replacement;
    const bool has_space = first.starts_with(' ') || first.starts_with(kMetaSpace);
    return at_start && !has_space ? prefix_ : "";
  }

  // What replaces the start of `text`.
  Charsmap::Rule next(std::string_view text) const {
    if (const TextTrie::Found found = user_defined_.longest(text); found.size > 0) {
      return {found.size, text.substr(0, found.size)};
    }
    if (const auto rule = map_.longest(text)) return *rule;
    const std::size_t size = code_point_at(text, 0).size;
    return {size, text.substr(0, size)};
  }

  TextTrie user_defined_;
  Charsmap map_;
  bool removes_;
  bool only_at_start_;
  std::string space_;
  std::string prefix_;
  std::string suffix_;
};

// Unigram in single precision, sum by sum as the library has it, so that ties break alike.
class FloatUnigram {
 public:
  explicit FloatUnigram(const SentencePieceModel& model)
      : model_(model), trie_(pieces_of(model, is_found_in_text)) {
    float least = FLT_MAX;
    for (const SentencePiece& piece : model.pieces) {
      if (piece.type == PieceType::kNormal) least = std::min(least, piece.score);
    }
    unk_score_ = least - 10.0F;
  }

  void encode(std::string_view text, UnigramSpace& space, std::vector<TokenId>& ids) const {
    space.ends.assign(text.size() + 1, {});
    for (std::size_t begin = 0; begin < text.size();) {
      begin += offer_from(begin, text, space.ends);
    }
    space.path.clear();
    for (std::size_t end = text.size(); end > 0; end = space.path.back().begin) {
      space.path.push_back(
          {static_cast<std::size_t>(space.ends[end].begin), end, space.ends[end].id});
    }
    for (std::size_t i = space.path.size(); i > 0; --i) {
      const UnigramSpace::Step& step = space.path[i - 1];
      const bool unknown = step.id == model_.unk_id;
      if (unknown && model_.byte_fallback) {
        for (const char byte : text.substr(step.begin, step.end - step.begin)) {
          ids.push_back(model_.byte_ids[static_cast<unsigned char>(byte)]);
        }
      } else if (!unknown || i == space.path.size() || space.path[i].id != model_.unk_id) {
        ids.push_back(step.id);
      }
    }
  }

 private:
  // Offers every piece that begins there; returns the bytes of the character.
  std::size_t offer_from(std::size_t begin, std::string_view text,
                         std::vector<UnigramSpace::End>& ends) const {
    const auto so_far = static_cast<float>(ends[begin].score);
    const std::size_t character = code_point_at(text, begin).size;
    const auto offer = [&](std::size_t size, TokenId id, float score) {
      UnigramSpace::End& end = ends[begin + size];
      const auto total = static_cast<double>(score + so_far);
      if (end.begin >= 0 && !(total > end.score)) return;
      end = {total, static_cast<std::int32_t>(begin), id};
    };
    bool has_character = false;
    trie_.find_all(text.substr(begin), [&](std::size_t size, TokenId id) {
      const SentencePiece& piece = model_.pieces[static_cast<std::size_t>(id)];
      // User-defined pieces win over all others, longer ones over shorter ones.
      const bool wins = piece.type == PieceType::kUserDefined;
      offer(size, id, wins ? 0.1F * static_cast<float>(size - 1) : piece.score);
      has_character = has_character || size == character;
    });
    if (!has_character) offer(character, model_.unk_id, unk_score_);
    return character;
  }

  const SentencePieceModel& model_;
  TextTrie trie_;
  float unk_score_ = 0;
};

// Text of pieces: control pieces vanish, bytes join, the space that was put before is taken back.
class PieceDecoder {
 public:
  explicit PieceDecoder(const SentencePieceModel& model) : model_(model) {
    for (const SentencePiece& piece : model.pieces) {
      if (piece.type != PieceType::kNormal) types_[piece.text] = piece.type;
    }
  }

  void apply(std::vector<std::string>& tokens) const {
    std::string text;
    std::string bytes;
    bool expects_space = true;
    bool space_seen = false;
    for (const std::string& token : tokens) {
      const auto found = types_.find(token);
      const PieceType type = found == types_.end() ? PieceType::kNormal : found->second;
      if (type == PieceType::kByte) {
        bytes += static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
        continue;
      }
      put_bytes(bytes, text);
      if (space_seen || !text.empty()) expects_space = false;
      space_seen = put_piece(token, type, expects_space, text);
    }
    put_bytes(bytes, text);
    tokens = {text};
  }

 private:
  // Every byte that is no UTF-8 becomes one U+FFFD.
  static void put_bytes(std::string& bytes, std::string& text) {
    std::string_view left = bytes;
    while (!left.empty()) {
      const std::size_t good = valid_utf8(left);
      text += left.substr(0, good);
      left.remove_prefix(good);
      if (left.empty()) break;
      text += kReplacement;
      left.remove_prefix(1);
    }
    bytes.clear();
  }

  // True: the piece began with the space that a text is given.
  bool put_piece(std::string_view piece, PieceType type, bool expects_space,
                 std::string& text) const {
    if (type == PieceType::kControl) return false;
    if (type == PieceType::kUnknown) {
      text += model_.unk_surface;
      return false;
    }
    bool space_seen = false;
    const bool was_put =
        model_.add_dummy_prefix || (model_.remove_extra_whitespaces && !model_.only_at_start);
    if (expects_space && was_put && piece.starts_with(kMetaSpace)) {
      piece.remove_prefix(kMetaSpace.size());
      space_seen = !model_.remove_extra_whitespaces;
    }
    while (!piece.empty()) {
      const bool space = piece.starts_with(kMetaSpace);
      const std::size_t size = space ? kMetaSpace.size() : 1;
      text += space ? " " : piece.substr(0, 1);
      piece.remove_prefix(size);
    }
    return space_seen;
  }

  const SentencePieceModel& model_;
  TextMap<PieceType> types_;
};

TokenId id_in(std::int64_t id, const SentencePieceModel& model) {
  return id >= 0 && static_cast<std::size_t>(id) < model.pieces.size() ? static_cast<TokenId>(id)
                                                                       : kNoToken;
}

// Where transformers' classes put a space before a text, whatever the model says of itself:
// "legacy" (true where absent, as in 4.57) behind every added token, too. Gemma's classes read
// neither key.
void put_space_rule(SentencePieceModel& model, const JsonTree& config) {
  const std::string name = config.string_or("tokenizer_class", "");
  if (name.starts_with("Gemma")) return;
  const JsonTree* const space = config.find("add_prefix_space");
  const bool by_class = name.starts_with("LlamaTokenizer") || model.add_dummy_prefix;
  model.add_dummy_prefix = config.flag_or("add_prefix_space", by_class);
  model.only_at_start =
      !config.flag_or("legacy", true) || (space != nullptr && !model.add_dummy_prefix);
}

void put_model(TokenizerParts& parts, const std::shared_ptr<const SentencePieceModel>& model) {
  if (model->is_bpe) {
    const auto bpe = std::make_shared<const SentencePieceBpe>(*model);
    parts.model = [model, bpe](std::string_view piece, Workspace& space,
                               std::vector<TokenId>& ids) { bpe->encode(piece, space.words, ids); };
    return;
  }
  const auto unigram = std::make_shared<const FloatUnigram>(*model);
  parts.model = [model, unigram](std::string_view piece, Workspace& space,
                                 std::vector<TokenId>& ids) {
    unigram->encode(piece, space.unigram, ids);
  };
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

Parts read_sentencepiece(const std::string& path, const std::string& bytes,
                         const JsonTree* config) {
  auto parts = std::make_unique<TokenizerParts>();
  parts->where = path;
  parts->added.look_in_text();  // transformers gives this model the text between them
  SentencePieceModel read = read_sentencepiece_model(bytes, path);
  if (config != nullptr) put_space_rule(read, *config);
  const auto model = std::make_shared<const SentencePieceModel>(std::move(read));
  for (std::size_t id = 0; id < model->pieces.size(); ++id) {
    parts->vocabulary->put(model->pieces[id].text, static_cast<std::int64_t>(id), path);
  }
  put_model(*parts, model);
  const auto normalizer = std::make_shared<const SpaceNormalizer>(*model);
  parts->normalizer.push_back([normalizer](Normalizing& at) {
    normalizer->apply(at.text, at.at_start, at.scratch);
    at.text.swap(at.scratch);
  });
  parts->decoder.push_back([model, decoder = PieceDecoder(*model)](
                               std::vector<std::string>& tokens) { decoder.apply(tokens); });
  parts->special_ids = {.bos = id_in(model->bos_id, *model),
                        .eos = id_in(model->eos_id, *model),
                        .pad = id_in(model->pad_id, *model),
                        .unk = model->unk_id,
                        .ends = {}};
  return parts;
}

}  // namespace fm::tokenizer

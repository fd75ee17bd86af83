// Encodes and decodes as the library sentencepiece 0.2 does (normalizer.cc, bpe_model.cc,
// unigram_model.cc and sentencepiece_processor.cc there).
#include <algorithm>
#include <cfloat>

#include "core/check.h"
#include "text/tokenizer/open_tokenizer.h"
#include "text/tokenizer/sentencepiece_bpe.h"
#include "text/tokenizer/sentencepiece_model.h"
#include "text/tokenizer/unicode/charsmap.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

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

// Its rules, and what becomes of white space.
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

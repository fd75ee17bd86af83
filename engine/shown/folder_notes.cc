#include "engine/shown/folder_notes.h"

#include <algorithm>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/plan/run_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using tokenizer::Tokenizer;

// Null where it cannot be read, which who needs it says.
std::unique_ptr<const Tokenizer> opened(const std::string& path) {
  try {
    return tokenizer::open_tokenizer(path);
  } catch (const core::UserError&) {
    return nullptr;
  }
}

std::string shown(const std::optional<std::string>& token) {
  return token ? core::concat('"', *token, '"') : "no token";
}

// "317 of 1200 ids are other tokens, the first is 5: ..."; "": all are the same.
std::string other_ids(const Tokenizer& own, const Tokenizer& given) {
  const auto end = static_cast<tokenizer::TokenId>(std::max(own.id_limit(), given.id_limit()));
  std::int64_t different = 0;
  std::string first;
  for (tokenizer::TokenId id = 0; id < end; ++id) {
    const std::optional<std::string> theirs = own.id_to_token(id);
    const std::optional<std::string> ours = given.id_to_token(id);
    if (theirs == ours) continue;
    if (different++ == 0) {
      first = core::concat(id, " is ", shown(theirs), " there and ", shown(ours), " here");
    }
  }
  return different == 0 ? "" : core::concat(different, " of ", end, " ids differ, ", first);
}

// Of equal tokens other ids may come, where a text is cut or changed in another way.
bool encode_alike(const Tokenizer& own, const Tokenizer& given) {
  constexpr std::string_view kProbe =
      "The  quick brown fox's 12345 jumps,\n\n\tover <s>it</s> \u00DCn\u00EFc\u00F6de \u6F22\u5B57";
  return own.encode(kProbe) == given.encode(kProbe);
}

}  // namespace

std::string note_of_other_tokenizer(const std::string& tokenizer, const fs::path& model_folder) {
  std::error_code ignored;
  const bool both = !tokenizer.empty() && checkpoint::has_tokenizer(model_folder) &&
                    !fs::equivalent(tokenizer, model_folder, ignored);
  if (!both) return "";
  const auto own = opened(model_folder.string());
  const auto given = opened(tokenizer);
  if (own == nullptr || given == nullptr) return "";
  std::string other = other_ids(*own, *given);
  if (other.empty() && !encode_alike(*own, *given)) other = "texts are cut in another way";
  if (other.empty()) return "";
  return core::concat(
      "--tokenizer is another one than the model folder's, which its weights have "
      "learned: ",
      other, " (", tokenizer, ", ", model_folder.string(), ")");
}

std::string note_of_unknown_keys(const model::ModelFacts& facts) {
  if (facts.unknown_keys.empty()) return "";
  return core::concat("config.json has keys that transformers' class for ", facts.family,
                      " does not know either: ", core::join(facts.unknown_keys, ", "),
                      "; they have no effect, so check that model_type is the architecture of the "
                      "weights");
}

std::vector<std::string> folder_notes(const TrainOptions& options, const model::ModelFacts& facts) {
  std::vector<std::string> notes = {note_of_unknown_keys(facts)};
  if (!options.init_ckpt.empty() && !options.pretrain) {
    notes.push_back(note_of_other_tokenizer(options.tokenizer, options.init_ckpt));
  }
  notes.push_back(note_of_markers(options));
  std::erase(notes, "");
  return notes;
}

}  // namespace fm::engine

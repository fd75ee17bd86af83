#include "engine/plan/run_tokens.h"

#include <algorithm>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/json_edit.h"
#include "core/json_tree.h"
#include "core/text.h"
#include "engine/plan/run_model.h"
#include "engine/plan/trained_names.h"
#include "text/prepare/extended_folder.h"
#include "text/tokenizer/extra_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

// A byte tokenizer with more tokens is no longer the built-in one.
void forget_marker(const std::filesystem::path& folder, core::FileTexts& texts) {
  const char* const config = "tokenizer_config.json";
  if (!checkpoint::has_byte_tokenizer(folder)) return;
  const auto edited = texts.find(config);
  FM_CHECK(edited != texts.end(), "tokens are named in ", config);
  edited->second = core::without_member(edited->second, checkpoint::kTokenizerMarker);
}

constexpr const char* kGeneration = "generation_config.json";

// `given` with the ends of texts that `made` names; `made` where there is no such file.
std::string with_ends_of(const std::string& made, const fs::path& given,
                         const tokenizer::Tokenizer& before) {
  const core::SmallFile file = core::read_small_file(given, core::kMostConfig);
  if (!file.problem.empty()) return made;
  const core::JsonTree root = core::parse_json(made, kGeneration);
  const core::JsonTree* const ends = root.find("eos_token_id");
  if (ends == nullptr) return file.text;
  std::vector<std::int64_t> ids;
  if (ends->kind == core::JsonKind::kArray) {
    for (const core::JsonTree& id : ends->array()) ids.push_back(id.whole());
  } else {
    ids.push_back(ends->whole());
  }
  std::string text = file.text;
  for (auto id = ids.rbegin(); id != ids.rend(); ++id)
    text = tokenizer::with_end(text, *id, before);
  return text;
}

}  // namespace

RunTokens read_tokens(const TokenWords& words) {
  const tokenizer::ExtraTokens extra{.tokens = words.add_tokens, .eos = words.eos_token};
  if (extra.none()) return {};
  RunTokens out;
  out.texts = prepare::extended_folder({words.folder, words.chat_template}, extra);
  forget_marker(words.folder, out.texts);
  const auto before = tokenizer::open_tokenizer(words.folder.string());
  const auto now = tokenizer::open_tokenizer(words.folder.string(), out.texts);
  out.ids = now->id_limit();
  if (!words.eos_token.empty()) out.eos = now->token_to_id(words.eos_token);
  const auto made = out.texts.find(kGeneration);
  const bool anew = made != out.texts.end() && !fs::exists(words.folder / kGeneration);
  if (anew && !words.weights.empty()) {
    made->second = with_ends_of(made->second, words.weights / kGeneration, *before);
  }
  for (const std::string& token : words.add_tokens) {
    if (before->token_to_id(token) == tokenizer::kNoToken) {
      out.added.push_back(now->token_to_id(token));
    }
  }
  std::ranges::sort(out.added);
  return out;
}

RunTokens tokens_of(const TrainOptions& options) {
  if (options.add_tokens.empty() && options.eos_token.empty()) return {};
  const std::filesystem::path folder = tokenizer_folder(options);
  FM_USER_CHECK(std::filesystem::is_directory(folder),
                "--add_tokens and --eos_token change the tokenizer of a folder; name one with "
                "--tokenizer FOLDER, or use an --init_ckpt that has one (tokenizer=\"",
                folder.string(), "\")");
  return read_tokens({.folder = folder,
                      .chat_template = options.chat_template,
                      .add_tokens = options.add_tokens,
                      .eos_token = options.eos_token,
                      .weights = weights_folder(options)});
}

void choose_token_rows(TrainOptions& options) {
  LoraOptions& lora = options.lora;
  if (lora.r == 0 || options.add_tokens.empty()) return;
  const std::vector<std::int64_t> added = tokens_of(options).added;
  const bool named = !lora.token_rows.empty();
  const bool all = std::ranges::includes(lora.token_rows, added);
  if (added.empty() || (named && (all || lora.start.empty()))) return;
  TrainOptions plain = options;
  plain.lora = {};
  plain.max_seq_len = 1;  // of any model
  const model::OpenedModel opened = open_run_model(plain);
  const std::vector<std::string>& matrices = opened.facts.vocab_tensors;
  const bool embedding = is_saved_module(lora, matrices[0]);
  const bool head = opened.model.tied || is_saved_module(lora, matrices[1]);
  if (embedding && head) return;
  const bool neither = !embedding && (opened.model.tied || !head);
  FM_USER_CHECK(neither, "the rows of added tokens are trained in the embedding and in the head; ",
                "name both in --modules_to_save, or neither (", matrices[0], ", ", matrices[1],
                ")");
  FM_USER_CHECK(lora.start.empty(),
                "adapters that are continued with --add_tokens must train the rows of these "
                "tokens (\"trainable_token_indices\" or \"modules_to_save\" of their "
                "adapter_config.json); begin with fresh ones, by --lora_r (",
                lora.start, ")");
  lora.token_rows = added;
}

namespace {

// None where a file cannot be read, which who needs it says.
std::vector<std::string> markers_of(const TrainOptions& options,
                                    const std::filesystem::path& folder) {
  try {
    return prepare::markers_without_token({folder, options.chat_template},
                                          tokens_of(options).texts);
  } catch (const core::UserError&) {
    return {};
  }
}

}  // namespace

std::string note_of_markers(const TrainOptions& options) {
  const std::filesystem::path folder = tokenizer_folder(options);
  const bool chats = reads_text(options) && !folder.empty();
  if (!chats || !std::filesystem::is_directory(folder)) return "";
  const std::vector<std::string> markers = markers_of(options, folder);
  if (markers.empty()) return "";
  std::vector<std::string> all = options.add_tokens;
  all.insert(all.end(), markers.begin(), markers.end());
  return core::concat("the chat template writes ", core::join(markers, " and "),
                      ", which the tokenizer cuts into pieces, so that no token ends an answer; ",
                      "add --add_tokens \"", core::join(all, ","),
                      "\" to make them tokens, with a row of the embedding each (", folder.string(),
                      ")");
}

}  // namespace fm::engine

#include "text/prepare/text_recipe.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/files/files.h"
#include "core/text.h"
#include "text/chat/answers.h"
#include "text/chat/column_advice.h"
#include "text/chat/unused_fields.h"
#include "text/jinja/json_text.h"
#include "text/prepare/renamed_row.h"
#include "text/prepare/token_spans.h"

namespace fm::prepare {
namespace {

using data::Document;
using tokenizer::SpecialTokens;
using tokenizer::TokenId;

constexpr const char* kNoAnswer =
    "an answer of the assistant is required, nothing else is trained; remove the line, or train "
    "everything with --train_on_inputs";

// Changes when a line becomes other ids or labels than before, so that no cache serves older ones.
constexpr int kRules = 2;

bool trains_prompts(const TextOptions& options) {
  return options.train_prompts.value_or(options.train_on_inputs);
}
bool trains_turns(const TextOptions& options) {
  return options.train_turns.value_or(options.train_on_inputs);
}

class LineTokenizer {
 public:
  LineTokenizer(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                std::shared_ptr<const chat::ChatFormat> format, TextOptions options)
      : tokenizer_(std::move(tokenizer)),
        format_(std::move(format)),
        options_(std::move(options)),
        text_first_(options_.text_first || options_.columns.has_meaning(options_.text_field)),
        eos_(tokenizer_->special_ids().eos),
        eos_token_(eos_ < 0 ? "" : tokenizer_->id_to_token(eos_).value_or("")) {}

  std::string read(std::string_view line, std::vector<Document>& documents) const {
    documents.clear();
    try {
      jinja::Value value = jinja::parse_json(line, "");
      if (value.dict() == nullptr) return "each line must be one JSON object; correct the line";
      if (std::string problem = rename_columns(options_.columns, value); !problem.empty()) {
        return problem;
      }
      return add(value, documents);
    } catch (const core::UserError& error) {
      std::string text = error.what();
      return text.starts_with(": ") ? text.substr(2) : text;
    }
  }

 private:
  std::string add(const jinja::Value& line, std::vector<Document>& documents) const {
    const jinja::Value* const text = chat::find_field(line, options_.text_field);
    const std::optional<chat::Form> form = chat::form_of(line);
    const bool text_counts =
        text != nullptr && (text_first_ || !form || !chat::is_filled(line, *form));
    if (form && !text_counts) return add_record(line, *form, documents);
    if (text != nullptr) return add_text(line, *text, documents);
    if (const jinja::Value* segments = chat::find_field(line, "segments")) {
      return add_segments(line, *segments, documents);
    }
    chat::refuse_preferences(line, "");
    std::string fields;
    for (const auto& [name, value] : line.dict()->entries) {
      if (chat::is_filled(value)) fields += (fields.empty() ? "" : ", ") + name;
    }
    const std::string cure = chat::advice_on_columns(line);
    return core::concat("a field \"", options_.text_field, "\" (--text_field), \"messages\", ",
                        "\"conversations\", \"prompt\" and \"completion\", \"instruction\" and ",
                        "\"output\" or \"segments\" is required; ",
                        cure.empty() ? "name the fields so, or say with --columns FIELD=MEANING "
                                       "what they are"
                                     : cure,
                        " (the line has ", fields.empty() ? "none" : core::shortened(fields), ")");
  }

  std::string add_text(const jinja::Value& line, const jinja::Value& value,
                       std::vector<Document>& documents) const {
    if (value.text() == nullptr) {
      return core::concat("\"", options_.text_field, "\" must be a string; correct the line");
    }
    Document document;
    tokenizer_->encode(*value.text(), SpecialTokens::kAdd, document.ids);
    if (eos_ >= 0 && (document.ids.empty() || document.ids.back() != eos_)) {
      document.ids.push_back(eos_);
    }
    const std::string_view read[] = {options_.text_field};
    document.unused = chat::unused_fields(line, read);
    documents.push_back(std::move(document));
    return "";
  }

  std::string add_record(const jinja::Value& line, chat::Form form,
                         std::vector<Document>& documents) const {
    chat::refuse_preferences(line, "");
    const chat::Record record = chat::read_record(line, "");
    const auto* pair = std::get_if<chat::PromptCompletion>(&record);
    std::string problem = pair != nullptr
                              ? add_completion(*pair, documents)
                              : add_chat(std::get<chat::Conversation>(record), documents);
    if (problem.empty()) documents[0].unused = chat::unused_fields(line, form, format_.get());
    return problem;
  }

  std::string add_chat(const chat::Conversation& conversation,
                       std::vector<Document>& documents) const {
    if (format_ == nullptr) {
      return "a conversation needs a chat template, and the model folder has none; put "
             "chat_template.jinja there, or name one with --chat_template";
    }
    // The prompt of a completion may be messages, too.
    const bool all = conversation.prompt > 0
                         ? trains_prompts(options_) && options_.train_turns.value_or(true)
                         : trains_turns(options_);
    if (all && !conversation.untrained.empty()) {
      return core::concat("a message that is not to be trained (\"weight\": 0 and the like) needs ",
                          "a run without --train_on_inputs or --assistant_only_loss false, which ",
                          "train everything; leave one of them out (message ",
                          conversation.untrained[0], ")");
    }
    for (const chat::Sample& sample : chat::samples_of(conversation, *format_, options_.now, "")) {
      std::string problem = add_sample(sample, all, documents);
      if (!problem.empty()) return problem;
    }
    return "";
  }

  // As TRL has it: the completion begins where the ids of the prompt alone end, or differ.
  std::string add_completion(const chat::PromptCompletion& pair,
                             std::vector<Document>& documents) const {
    const chat::Sample sample = chat::sample_of(pair, eos_token_);
    const bool all = trains_prompts(options_);
    if (sample.answers.empty() && !all) return kNoAnswer;
    Document document;
    tokenizer_->encode(sample.text, SpecialTokens::kAdd, document.ids);
    if (!all) {
      document.labels = document.ids;
      std::fill_n(document.labels.begin(),
                  common(pair.prompt, SpecialTokens::kAdd, document.ids).ids, data::kIgnored);
    }
    documents.push_back(std::move(document));
    return "";
  }

  // How many ids the start of a text has in common with those of the whole, and whether it has
  // others behind them.
  struct SameStart {
    std::size_t ids;
    bool others;
  };
  SameStart common(const std::string& start, SpecialTokens special,
                   const std::vector<TokenId>& ids) const {
    const std::vector<TokenId> prefix = tokenizer_->encode(start, special);
    const auto pair = std::mismatch(prefix.begin(), prefix.end(), ids.begin(), ids.end());
    return {static_cast<std::size_t>(pair.first - prefix.begin()), pair.first != prefix.end()};
  }

  // `all`: every id is trained.
  std::string add_sample(const chat::Sample& sample, bool all,
                         std::vector<Document>& documents) const {
    Document document;
    tokenizer_->encode(sample.text, SpecialTokens::kNone, document.ids);
    if (!all) {
      if (sample.answers.empty()) return kNoAnswer;
      const std::vector<bool> trained = trained_of(sample, document.ids);
      document.labels = document.ids;
      for (std::size_t i = 0; i < trained.size(); ++i) {
        if (!trained[i]) document.labels[i] = data::kIgnored;
      }
    }
    documents.push_back(std::move(document));
    return "";
  }

  // By token. Where tokens have no bytes of their own, an answer begins behind the tokens that its
  // beginning does not change, and ends with those of the text up to its end.
  std::vector<bool> trained_of(const chat::Sample& sample, const std::vector<TokenId>& ids) const {
    std::call_once(spans_made_, [&] { spans_.emplace(*tokenizer_); });
    if (const auto spans = spans_->find(sample.text, ids)) {
      return chat::trained_tokens(sample, *spans);
    }
    std::vector<bool> trained(ids.size(), false);
    const auto until = [&](std::size_t bytes) {
      return common(sample.text.substr(0, bytes), SpecialTokens::kNone, ids);
    };
    for (const jinja::Span& answer : sample.answers) {
      const SameStart end = until(answer.end);
      const bool to_the_end = answer.end == sample.text.size();
      const std::size_t last =
          to_the_end ? ids.size() : std::min(ids.size(), end.ids + (end.others ? 1 : 0));
      for (std::size_t at = until(answer.begin).ids; at < last; ++at) trained[at] = true;
    }
    return trained;
  }

  std::string add_segments(const jinja::Value& line, const jinja::Value& value,
                           std::vector<Document>& documents) const {
    const jinja::Sequence* const segments = value.sequence();
    constexpr const char* kForm =
        "\"segments\" must be a list of {\"text\": \"...\", \"label\": true or false}; correct "
        "the line";
    if (segments == nullptr) return kForm;
    Document document;
    for (const jinja::Value& each : segments->items) {
      const jinja::Value* const text = chat::find_field(each, "text");
      const jinja::Value* const label = chat::find_field(each, "label");
      if (text == nullptr || text->text() == nullptr || label == nullptr ||
          label->get<bool>() == nullptr) {
        return kForm;
      }
      tokenizer_->encode(*text->text(), SpecialTokens::kNone, document.ids);
      const bool trained = *label->get<bool>() || trains_prompts(options_);
      for (std::size_t i = document.labels.size(); i < document.ids.size(); ++i) {
        document.labels.push_back(trained ? document.ids[i] : data::kIgnored);
      }
    }
    static constexpr std::string_view kRead[] = {"segments"};
    document.unused = chat::unused_fields(line, kRead);
    documents.push_back(std::move(document));
    return "";
  }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::shared_ptr<const chat::ChatFormat> format_;
  TextOptions options_;
  bool text_first_;  // the user has named the text: it comes before other forms
  mutable std::once_flag spans_made_;
  mutable std::optional<TokenSpans> spans_;
  TokenId eos_;
  std::string eos_token_;
};

// For the identity of what is made.
const char* trained_words(const TextOptions& options) {
  const bool prompts = trains_prompts(options);
  if (prompts && trains_turns(options)) return ", all trained";
  const bool of_messages = options.train_turns.value_or(true);
  if (prompts) return of_messages ? ", prompts trained" : ", prompts of texts trained";
  return trains_turns(options) ? ", turns trained" : "";
}

// Of the files that chat::read_chat_format reads; changes when one of them does.
std::string template_identity(const std::filesystem::path& folder,
                              const std::filesystem::path& template_file) {
  std::vector<std::filesystem::path> files = {folder / "tokenizer_config.json",
                                              folder / "chat_template.jinja", template_file};
  std::error_code none;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder / "additional_chat_templates", none)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin() + 3, files.end());
  std::uint32_t crc = 0;
  for (const std::filesystem::path& file : files) {
    crc = core::crc32c(core::read_small_file(file, core::kMostListing).text, crc);
  }
  return std::to_string(crc);
}

ReadLine one_document(data::LineReader read) {
  return [read = std::move(read)](std::string_view line, std::vector<data::Document>& documents) {
    documents.resize(1);
    documents.front() = {};
    return read(line, documents.front());
  };
}

std::string words_of(const data::Columns& columns) {
  return columns.empty() ? "" : ", columns " + columns.words();
}

// "</s>" (2), "<|im_end|>" (7)
data::EndTokens end_tokens(const tokenizer::Tokenizer& tokenizer) {
  data::EndTokens ends;
  for (const TokenId id : tokenizer.special_ids().ends) {
    ends.ids.push_back(id);
    ends.words += core::concat(ends.words.empty() ? "" : ", ", '"',
                               tokenizer.id_to_token(id).value_or(""), "\" (", id, ')');
  }
  return ends;
}

}  // namespace

Recipe read_recipe(const std::filesystem::path& path, const std::filesystem::path& template_file,
                   TextOptions options) {
  const std::filesystem::path whole = std::filesystem::absolute(path);
  const std::filesystem::path folder =
      std::filesystem::is_directory(whole) ? whole : whole.parent_path();
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer =
      tokenizer::open_tokenizer(path.string(), options.texts);
  std::shared_ptr<const chat::ChatFormat> format;
  if (!template_file.empty()) {
    format = std::make_shared<const chat::ChatFormat>(
        chat::read_chat_format(folder, template_file, options.texts));
  } else if (auto found = chat::read_chat_format(folder, options.texts)) {
    format = std::make_shared<const chat::ChatFormat>(std::move(*found));
  }
  options.template_identity = template_identity(folder, template_file);
  return make_recipe(std::move(tokenizer), std::move(format), options);
}

Recipe make_recipe(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                   std::shared_ptr<const chat::ChatFormat> format, const TextOptions& options) {
  Recipe recipe;
  recipe.words =
      core::concat("tokenizer ", tokenizer->identity(), ", template ", options.template_identity,
                   ", field ", options.text_field, options.text_first ? ", first" : "",
                   trained_words(options), words_of(options.columns), ", rules ", kRules);
  recipe.tokens = "tokens";
  recipe.vocab = tokenizer->id_limit();
  recipe.plain = tokenizer->plain_limit();
  const tokenizer::SpecialIds& special = tokenizer->special_ids();
  recipe.eos = special.eos;
  recipe.filler = special.pad >= 0 ? special.pad : std::max<TokenId>(special.eos, 0);
  recipe.ends = end_tokens(*tokenizer);
  const auto reader =
      std::make_shared<const LineTokenizer>(std::move(tokenizer), std::move(format), options);
  recipe.read_line = [reader](std::string_view line, std::vector<Document>& documents) {
    return reader->read(line, documents);
  };
  return recipe;
}

Recipe within(Recipe recipe, std::int64_t vocab) {
  if (recipe.vocab <= vocab) return recipe;
  recipe.vocab = vocab;
  recipe.words += core::concat(", rows ", vocab);
  if (recipe.filler >= vocab) recipe.filler = 0;
  recipe.read_line = [read = std::move(recipe.read_line), vocab](
                         std::string_view line, std::vector<Document>& documents) -> std::string {
    std::string problem = read(line, documents);
    for (const Document& document : documents) {
      const auto beyond =
          std::ranges::find_if(document.ids, [&](TokenId id) { return id >= vocab; });
      if (!problem.empty() || beyond == document.ids.end()) continue;
      problem = core::concat("the model has no row for the added token ", *beyond,
                             " of its tokenizer; remove that token from the text, or give the "
                             "matrix rows with --add_tokens (vocab_size ",
                             vocab, ")");
    }
    return problem;
  };
  return recipe;
}

Recipe id_recipe(std::int64_t vocab, const data::Columns& columns) {
  return {.read_line = one_document(data::ids_reader(vocab, columns)),
          .words = core::concat("input_ids, vocab_size ", vocab, words_of(columns)),
          .tokens = "tokens (input_ids)",
          .vocab = vocab};
}

Recipe byte_recipe(const std::string& field, const data::Columns& columns) {
  return {.read_line = one_document(data::text_reader(field, columns)),
          .words = core::concat("bytes, field ", field, words_of(columns)),
          .tokens = "byte tokens",
          .vocab = core::kByteVocab,
          .filler = core::kPadId,
          .eos = core::kEosId};
}

}  // namespace fm::prepare

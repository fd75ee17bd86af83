#include "engine/plan/trained_names.h"

#include <algorithm>
#include <optional>
#include <regex>

#include "core/check.h"
#include "engine/plan/run_model.h"
#include "model/units/lora.h"

namespace fm::engine {
namespace {

std::optional<std::regex> expression(const char* flag, const std::string& words) {
  if (words.empty()) return std::nullopt;
  try {
    return std::regex(words, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    FM_USER_CHECK(false, flag, " must be a regular expression (ECMAScript); correct it (", words,
                  ": ", error.what(), ")");
  }
}

std::vector<std::string> all_names(const model::Model& model) {
  std::vector<std::string> names;
  const auto append = [&](const core::ParamTable& table) {
    for (const core::ParamEntry& entry : table.entries()) names.push_back(entry.name);
  };
  for (int unit = 0; unit < model.table_count(); ++unit) {
    append(model.table(unit));
    if (model.frozen_table(unit) != nullptr) append(*model.frozen_table(unit));
  }
  return names;
}

void check_match(const char* flag, const std::string& words,
                 const std::vector<std::string>& names) {
  const std::optional<std::regex> pattern = expression(flag, words);
  if (!pattern) return;
  const auto matches = [&](const auto& name) { return std::regex_search(name, *pattern); };
  FM_USER_CHECK(std::ranges::any_of(names, matches), flag,
                " must match the name of a parameter; names are as ", names.front(), " and ",
                names.back(), " (", words, ")");
}

// Of a rule that mixes the numbers of a matrix no row is left alone.
void check_token_rows(const TrainOptions& options, const model::Model& model) {
  const std::vector<std::int64_t>& rows = options.lora.token_rows;
  if (rows.empty()) return;
  FM_USER_CHECK(rows.front() >= 0 && rows.back() < model.vocab,
                "trainable_token_indices must be ids of the vocabulary; correct them (",
                rows.front(), " to ", rows.back(), ", vocab_size=", model.vocab, ")");
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  FM_USER_CHECK(rule.by_tensor == nullptr && rule.by_matrix == nullptr,
                "trainable_token_indices trains rows of a matrix, which ", rule.name,
                " moves as a whole; use another optimizer, as AdamW");
  for (const int unit : {0, model.head_unit()}) {
    for (const core::ParamEntry& entry : model.table(unit).entries()) {
      const bool twice = entry.kind == core::ParamKind::kEmbedding && entry.split_dim == 0 &&
                         is_saved_module(options.lora, entry.name) &&
                         model::has_token_rows(choices_of(options).lora, entry.name);
      FM_USER_CHECK(!twice,
                    "modules_to_save trains a matrix whole, and trainable_token_indices some of "
                    "its rows; leave out one of them (",
                    entry.name, ")");
    }
  }
}

void check_saved_modules(const TrainOptions& options, const model::Model& model,
                         const std::vector<std::string>& names) {
  FM_USER_CHECK(options.train.empty() && options.freeze.empty(),
                "--train and --freeze do not go together with --lora_r, which trains adapters and "
                "--modules_to_save; leave out one or the other");
  for (const std::string& module : options.lora.modules_to_save) {
    LoraOptions one;
    one.modules_to_save = {module};
    const auto matches = [&](const auto& name) { return is_saved_module(one, name); };
    FM_USER_CHECK(
        std::ranges::any_of(names, matches),
        "modules_to_save (a flag, or of a PEFT folder) must name modules of the model, as "
        "the last parts of ",
        names.front(), " and ", names.back(), " (", module, ")");
  }
  check_token_rows(options, model);
  const bool whole = options.lora.token_rows.empty() && model.head->tied_params() != nullptr;
  FM_USER_CHECK(!model.tied || !whole,
                "modules_to_save must not name the embedding of a model whose head is tied to "
                "it: peft would make two matrices of one; leave it out");
}

}  // namespace

bool is_saved_module(const LoraOptions& lora, const std::string& name) {
  const std::string module = name.substr(0, name.rfind('.'));
  return std::ranges::any_of(lora.modules_to_save,
                             [&](const auto& end) { return module.ends_with(end); });
}

std::function<bool(const std::string&)> trained_names(const TrainOptions& options) {
  if (options.lora.r > 0) {
    return [lora = options.lora](const std::string& name) {
      return model::is_adapter(name) || is_saved_module(lora, name);
    };
  }
  const std::optional<std::regex> train = expression("--train", options.train);
  const std::optional<std::regex> freeze = expression("--freeze", options.freeze);
  if (!train && !freeze) return {};
  return [train, freeze](const std::string& name) {
    return (!train || std::regex_search(name, *train)) &&
           (!freeze || !std::regex_search(name, *freeze));
  };
}

void check_trained_names(const TrainOptions& options, const model::Model& model) {
  const std::vector<std::string> names = all_names(model);
  if (options.lora.r > 0) return check_saved_modules(options, model, names);
  check_match("--train", options.train, names);
  check_match("--freeze", options.freeze, names);
  bool any = false;
  for (int unit = 0; unit < model.table_count(); ++unit) any = any || model.trains(unit);
  FM_USER_CHECK(any, "a run must train something; let --train and --freeze leave a parameter (",
                "train=\"", options.train, "\", freeze=\"", options.freeze, "\")");
}

}  // namespace fm::engine

#include "engine/plan/choose_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"
#include "engine/plan/run_model.h"
#include "text/data/data_paths.h"
#include "text/prepare/answer_rows.h"

namespace fm::engine {
namespace {

bool holds_answers(const TrainOptions& options) {
  if (options.data_path.empty()) return false;
  // Rows of flat files have no documents, in evaluation neither.
  const bool flat = !options.eval_data_path.empty() &&
                    data::is_flat(options.eval_data_path, options.data_format, options.rows);
  return !flat && prepare::holds_answers(
                      options.data_path, options.data_format, options.rows,
                      {.text_field = options.text_field, .text_first = options.text_first});
}

// model_max_length of the tokenizer's folder; many have a number beyond all lengths there.
std::int64_t tokenizer_length(const TrainOptions& options) {
  const std::filesystem::path home = tokenizer_home(options);
  if (home.empty()) return kUsualRow;
  const core::SmallFile file =
      core::read_small_file(home / "tokenizer_config.json", core::kMostListing);
  const auto json = nlohmann::json::parse(file.text, nullptr, false);
  const auto at = json.is_object() ? json.find("model_max_length") : json.end();
  if (at == json.end() || !at->is_number()) return kUsualRow;
  const double length = at->get<double>();
  return length >= 1.0 && length < kUsualRow ? static_cast<std::int64_t>(length) : kUsualRow;
}

// "rows of 512 tokens, the model's length: --max_seq_len not given"
std::string choose_length(bool answers, TrainOptions& options) {
  TrainOptions shortest = options;
  shortest.max_seq_len = 1;
  const std::int64_t model = open_run_model(shortest).facts.max_positions;
  const std::int64_t tokenizer = tokenizer_length(options);
  const bool is_short = !answers && options.init_ckpt.empty();
  options.max_seq_len = std::min({is_short ? kShortRow : kUsualRow, model, tokenizer});
  const char* whose = "";
  if (options.max_seq_len == tokenizer && tokenizer < kUsualRow) whose = ", the tokenizer's length";
  if (options.max_seq_len == model) whose = ", the model's length";
  return core::concat("rows of ", core::grouped(std::to_string(options.max_seq_len)), " tokens",
                      whose, ": --max_seq_len not given");
}

}  // namespace

void choose_rows(TrainOptions& options) {
  const RowsLeftOpen open = options.left_open;
  if (!open.packing && !open.document_attention && !open.max_seq_len) return;
  options.left_open = {};
  const bool answers = holds_answers(options);
  std::vector<std::string> flags;
  if (open.packing && answers) {
    options.packing = data::Packing::kBestFit;
    flags.emplace_back("--packing best_fit");
  }
  if (open.document_attention && answers && options.packing == data::Packing::kBestFit) {
    options.document_attention = true;
    flags.emplace_back("--document_attention");
  }
  std::vector<std::string> words;
  if (open.max_seq_len) words.push_back(choose_length(answers, options));
  if (!flags.empty()) words.push_back(core::join(flags, " ") + ": answers follow their questions");
  options.left_open.chosen = core::join(words, "; ");
}

}  // namespace fm::engine

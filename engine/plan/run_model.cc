#include "engine/plan/run_model.h"

#include "checkpoint/foreign_folder.h"
#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/plan/adapter_file.h"
#include "engine/plan/run_tokens.h"
#include "engine/plan/tile_choice.h"
#include "engine/plan/trained_names.h"
#include "text/data/data_paths.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::engine {
namespace {

using Words = std::vector<std::string>;

std::string text_of(const Words& words) { return core::join(words, " "); }

bool is_text(const Words& words, const TrainOptions& options) {
  return !words.empty() && data::reads_text(words, options.data_format, options.rows);
}

void check_rows(const TrainOptions& options) {
  std::vector<data::DataPart> parts;
  for (const Words& words : {options.data_path, options.eval_data_path}) {
    if (words.empty()) continue;
    for (data::DataPart& part : data::find_data(words, options.data_format, options.rows)) {
      parts.push_back(std::move(part));
    }
  }
  data::check_row_options(parts, options.rows);
}

void check_token_file(const TrainOptions& options, bool eval_text) {
  FM_USER_CHECK(options.packing == data::Packing::kConcat ||
                    !data::is_flat(options.data_path, options.data_format, options.rows),
                "--packing needs documents, as in JSONL, Megatron's and MDS datasets: a flat "
                "token file is read in rows of --max_seq_len + 1 ids, wherever documents end; "
                "leave it out (data_path=",
                text_of(options.data_path), ")");
  FM_USER_CHECK(options.text_field == "text" || eval_text,
                "--text_field needs JSONL text: token ids have no such field; leave it out "
                "(text_field=",
                options.text_field, ", data_path=", text_of(options.data_path), ")");
}

// With ids of another tokenizer the losses of evaluation would mean nothing.
void check_text_beside_tokens(const TrainOptions& options) {
  const std::string& folder = options.init_ckpt;
  FM_USER_CHECK(
      !options.tokenizer.empty() || (!folder.empty() && checkpoint::has_tokenizer(folder)),
      "evaluation text needs the tokenizer that made the ids of the training data; name "
      "it with --tokenizer FOLDER, or tokenize the evaluation data the same way "
      "(eval_data_path=",
      text_of(options.eval_data_path), ", data_path=", text_of(options.data_path), ")");
}

// Weights without a word about it have learnt the ids of some tokenizer; random ones have not.
void check_tokenizer(const TrainOptions& options) {
  FM_USER_CHECK(options.init_ckpt.empty() || options.pretrain || !options.tokenizer.empty() ||
                    checkpoint::has_tokenizer(options.init_ckpt),
                "text needs the tokenizer that the weights were trained with; put its files into "
                "the folder (tokenizer.json or tokenizer.model), name another one with --tokenizer "
                "FOLDER, or begin with random weights by --pretrain (no tokenizer in init_ckpt=",
                options.init_ckpt, ", data_path=", text_of(options.data_path), ")");
}

void check_byte_vocabulary(const model::Model& model) {
  FM_USER_CHECK(model.vocab >= core::kByteVocab,
                "the built-in byte tokenizer needs a vocabulary of at least ", core::kByteVocab,
                " ids; use such a model or --data_format tokens (vocab_size=", model.vocab, ")");
}

void check_data(const TrainOptions& options, const model::Model& model) {
  if (options.data_path.empty()) return;
  if (!options.rows.columns.empty() || options.rows.sample_by) check_rows(options);
  const bool text = reads_text(options);
  const bool eval_text = evaluates_text(options);
  if (text) {
    check_tokenizer(options);
  } else {
    check_token_file(options, eval_text);
    if (eval_text) check_text_beside_tokens(options);
  }
  if ((text || eval_text) && tokenizer_folder(options).empty()) check_byte_vocabulary(model);
}

// Adapters that train rows of tokens may have been trained with more of them than the base has. 0:
// they do not say. Ids that their own tokenizer lacks are refused as any others.
std::int64_t rows_of_start(const LoraOptions& lora) {
  if (lora.start.empty()) return 0;
  const std::int64_t whole = lora.modules_to_save.empty() ? 0 : vocabulary_rows(lora.start);
  if (lora.token_rows.empty() || !checkpoint::has_tokenizer(lora.start)) return whole;
  const std::int64_t last = lora.token_rows.back();
  const bool known = last < tokenizer::open_tokenizer(lora.start)->id_limit();
  return known ? std::max(whole, last + 1) : whole;
}

}  // namespace

bool reads_text(const TrainOptions& options) { return is_text(options.data_path, options); }

bool evaluates_text(const TrainOptions& options) {
  return is_text(options.eval_data_path, options);
}

std::filesystem::path tokenizer_folder(const TrainOptions& options) {
  // Trainers save the tokenizer with adapters, with the template that these were trained on.
  const std::string& start = options.lora.start;
  const bool adapters = !start.empty() && checkpoint::has_tokenizer(start);
  const std::string& own = adapters ? start : options.init_ckpt;
  const std::string& named = options.tokenizer.empty() ? own : options.tokenizer;
  const bool found = !named.empty() && checkpoint::has_tokenizer(named);
  if (!found) return options.tokenizer;  // a file, or to be refused where it is opened
  // The built-in reader knows texts alone.
  const bool extended =
      !options.add_tokens.empty() || !options.eos_token.empty() || !options.chat_template.empty();
  return !extended && checkpoint::has_byte_tokenizer(named) ? "" : named;
}

std::filesystem::path tokenizer_home(const TrainOptions& options) {
  std::filesystem::path path = tokenizer_folder(options);
  if (path.empty()) return path;
  const std::filesystem::path whole = std::filesystem::absolute(path);
  return std::filesystem::is_directory(whole) ? whole : whole.parent_path();
}

std::filesystem::path weights_folder(const TrainOptions& options) {
  return options.pretrain ? "" : options.init_ckpt;
}

model::OpenedModel part_of(const model::OpenedModel& whole, const TrainOptions& options,
                           int tp_rank) {
  const auto part = [&](int index) {
    model::ModelChoices choices =
        choices_of(options, {.index = index, .count = options.model_parallel_size});
    choices.tile_rows = whole.model.tile_rows;
    return whole.make(choices);
  };
  model::Model model = part(tp_rank);
  if (tp_rank > 0) model.first_part = std::make_shared<const model::Model>(part(0));
  return {.model = std::move(model), .facts = whole.facts, .make = whole.make, .init = whole.init};
}

model::ModelChoices choices_of(const TrainOptions& options, core::Share share) {
  const bool card = options.device.kind == DeviceKind::kCuda;
  return {.no_decay = options.no_decay,
          .element = options.element,
          .trains = trained_names(options),
          .lora = {.rank = options.lora.r,
                   .scale = options.lora.r > 0 ? options.lora.scale() : 1.0,
                   .dropout = options.lora.dropout,
                   .targets = options.lora.targets,
                   .token_rows = options.lora.token_rows,
                   .token_modules = options.lora.token_modules},
          .share = share,
          .split_tokens = options.megatron_sequence_parallel && share.count > 1,
          .logit_chunks = card ? model::LogitChunks::kOfCard : model::LogitChunks::kOfCpu,
          .fuses_projections = card};
}

model::OpenedModel open_run_model(const TrainOptions& options) {
  FM_USER_CHECK(options.init_ckpt.empty() != options.model_config.empty(),
                "exactly one of --init_ckpt DIR (a Hugging Face folder) and --model_config FILE (a "
                "config.json, random weights) is required (init_ckpt=\"",
                options.init_ckpt, "\", model_config=\"", options.model_config, "\")");
  const bool folder = !options.init_ckpt.empty();
  const auto config = folder ? std::filesystem::path(options.init_ckpt) / "config.json"
                             : std::filesystem::path(options.model_config);
  if (folder) {
    const std::string foreign = checkpoint::foreign_folder(options.init_ckpt);
    FM_DATA_CHECK(foreign.empty() || (options.pretrain && std::filesystem::exists(config)),
                  foreign);
  }
  model::ModelChoices choices = choices_of(options);
  choices.vocab_at_least = std::max(tokens_of(options).ids, rows_of_start(options.lora));
  model::OpenedModel opened = model::open_model(config, choices);
  FM_USER_CHECK(options.max_seq_len <= opened.facts.max_positions,
                "--max_seq_len must be at most the model's max_position_embeddings; lower it, or "
                "raise that key of config.json where the model is to learn longer rows "
                "(max_seq_len=",
                options.max_seq_len, ", max_position_embeddings=", opened.facts.max_positions, ")");
  choices.tile_rows = tile_rows_of(options, opened);
  if (choices.tile_rows > 0) opened.model = opened.make(choices);
  check_trained_names(options, opened.model);
  check_data(options, opened.model);
  return opened;
}

}  // namespace fm::engine

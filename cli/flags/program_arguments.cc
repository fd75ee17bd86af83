#include "cli/flags/program_arguments.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/flags/argv.h"
#include "cli/flags/device_words.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/row_flags.h"
#include "cli/peft_folder.h"
#include "core/text.h"
#include "machine/cores.h"
#include "observe/report/comparison.h"

namespace fm::cli {
namespace {

// fmengine-export.

constexpr FlagRow kExportRows[] = {
    {"dtype", FlagKind::kText, "fp32", "Flags",
     "of the weights: fp32, bf16, fp16, or as_init (as config.json or the first weights say)"},
    {"model_config", FlagKind::kText, "", "Flags", "config.json, for a checkpoint that keeps none"},
};

Program export_program() {
  return {.name = "fmengine-export",
          .purpose = "Makes a Hugging Face folder OUT of the weights in a CHECKPOINT.",
          .usage =
              "CHECKPOINT OUT [flags]\n"
              "  CHECKPOINT is a folder global_stepN, or an output directory: its newest.\n"
              "  OUT must be new, empty or an older export.",
          .flags = kExportRows};
}

// fmengine-report.

constexpr FlagRow kReportRows[] = {
    {"out", FlagKind::kText, "", "Flags",
     "file of the page; else OUT/report.html, of several runs comparison.html in the first"},
    {"trace", FlagKind::kText, "", "Flags", "file of fmengine-train --trace, for a timeline"},
    {"text", FlagKind::kBool, "false", "Flags", "print a summary instead, and write no page"},
};

Program report_program() {
  return {.name = "fmengine-report",
          .purpose = "Makes one HTML page of a run from the metrics.jsonl in its folder OUT.",
          .usage =
              "OUT [OUT2 ...] [flags]\n"
              "  Several runs are compared: losses in one chart, results, settings that differ.",
          .flags = kReportRows};
}

// fmengine-blackbox.

constexpr FlagRow kBlackboxRows[] = {
    {"before", FlagKind::kBool, "false", "Flags", "of the start before the newest one"},
    {"last", FlagKind::kInt, "0", "Flags", "print the last N records of every rank, by time"},
    {"json", FlagKind::kBool, "false", "Flags", "as one JSON object"},
};

Program blackbox_program() {
  return {.name = "fmengine-blackbox",
          .purpose = "Tells what every rank of a run did last, and who waits for whom.",
          .usage =
              "OUT [flags]\n"
              "  OUT is what --output_dir was; the run may have crashed, hang, or go on.",
          .flags = kBlackboxRows};
}

// fmengine-tokenize.

constexpr FlagRow kTokenizeRows[] = {
    {"tokenizer", FlagKind::kText, "", "Flags",
     "folder with tokenizer.json, tokenizer.model, or vocab.json and merges.txt"},
    {"data_path", FlagKind::kList, "", "Flags",
     "files of text (JSONL, .txt, .csv, .tsv, also .gz and .zst; .parquet, .arrow), folders, "
     "patterns, in their order"},
    {"columns", FlagKind::kList, "", "Flags",
     "what columns of rows mean: question=prompt,answer=completion"},
    {"sample_by", FlagKind::kText, "line", "Flags",
     "what of a .txt file is a document: line, paragraph, document"},
    {"out", FlagKind::kText, "", "Flags",
     "the file to write, a new one; of megatron OUT.bin and OUT.idx"},
    {"data_format", FlagKind::kText, "tokens_i32", "Flags",
     "tokens_i32 (int32 ids, one end-of-text id behind each document) or megatron"},
    {"text_field", FlagKind::kText, "text", "Flags",
     "field of the text; given, it comes before chats"},
    {"chat_template", FlagKind::kText, "", "Flags", "Jinja file instead of the folder's template"},
    {"add_tokens", FlagKind::kText, "", "Flags",
     "special tokens that the tokenizer shall have, as for fmengine-train"},
    {"eos_token", FlagKind::kText, "", "Flags",
     "the token that ends a text, as for fmengine-train"},
    {"train_on_inputs", FlagKind::kBool, "false", "Flags",
     "train on prompts and all turns; else megatron's OUT.counted says which ids count"},
    {"skip_bad_lines", FlagKind::kInt, "0", "Flags",
     "leave out up to N lines that are no documents"},
    {"threads", FlagKind::kInt, "", "Flags", "else as many as there are cores"},
};

Program tokenize_program() {
  return {.name = "fmengine-tokenize",
          .purpose = "Makes token ids of text, for fmengine-train's --data_path.",
          .usage = "--tokenizer FOLDER --data_path FILES --out PATH [flags]",
          .flags = kTokenizeRows};
}

// fmengine-generate.

constexpr auto kBool = FlagKind::kBool;
constexpr auto kInt = FlagKind::kInt;
constexpr auto kList = FlagKind::kList;
constexpr auto kText = FlagKind::kText;

// The group's name in --help says what holds where a flag is not given.
constexpr const char* kDrawn = "Choice of tokens (where not given, generation_config.json decides)";

constexpr FlagRow kGenerateRows[] = {
    {"ckpt", kText, "", "Model",
     "Hugging Face folder, as fmengine-train writes it, or a PEFT folder that names its base"},
    {"adapter", kText, "", "Model", "PEFT folder with adapters for --ckpt"},
    {"tokenizer", kText, "", "Model",
     "folder of tokenizer and chat template; empty: the adapter's, else --ckpt"},
    {"dtype", kText, "fp32", "Model", "of weights and cache: fp32, bf16 or fp16"},
    {"device", kText, "cpu", "Model", "what computes: cpu; cuda or cuda:N, a GPU; auto; fake"},
    {"prompt", kText, "", "Text", "text to continue; empty: the start of a document"},
    {"prompt_file", kText, "", "Text",
     "a prompt per line, or *.jsonl with \"prompt\" or \"messages\"; writes JSON lines"},
    {"chat", kBool, "false", "Text",
     "prompts are questions, put into the model's chat template; without a prompt: read from "
     "standard input, with what was said before, until /exit"},
    {"system", kText, "", "Text", "system message of --chat"},
    {"score", kText, "", "Text",
     "file of texts (a line each, or *.jsonl with \"text\"): log-probabilities and perplexity"},
    {"output", kText, "", "Text", "file for JSON lines; empty: standard output"},
    {"batch_size", kInt, "8", "Text", "prompts of a file that are continued together"},
    {"max_new_tokens", kInt, "200", "Tokens", "tokens to add at most"},
    {"stop", kList, "", "Tokens", "text before which a continuation ends; may be repeated"},
    {"seed", kInt, "3407", "Tokens", "of the sampling"},
    {"temperature", kText, "", kDrawn, "0: always the likeliest; 1: as the model says"},
    {"top_k", kInt, "", kDrawn, "choose among the k likeliest; 0: all"},
    {"top_p", kText, "", kDrawn, "choose among the likeliest that reach this probability"},
    {"min_p", kText, "", kDrawn, "choose among those with this share of the likeliest's"},
    {"repetition_penalty", kText, "", kDrawn,
     "divides logits of tokens that were there; 1 changes nothing"},
};

Program generate_program() {
  return {.name = "fmengine-generate",
          .purpose = "Continues texts with a trained model, answers, or says how likely texts are.",
          .usage = "--ckpt DIR --prompt TEXT | --prompt_file FILE | --chat | --score FILE [flags]",
          .flags = kGenerateRows};
}

core::DType dtype_of(const FlagValues& flags) {
  return flags.choice<core::DType>(
      "dtype",
      {{"fp32", core::DType::kF32}, {"bf16", core::DType::kBF16}, {"fp16", core::DType::kF16}});
}

std::optional<double> number(const FlagValues& flags, const char* name) {
  return flags.given(name) ? std::optional(flags.number(name, 0)) : std::nullopt;
}

std::optional<double> share(const FlagValues& flags, const char* name) {
  const std::optional<double> value = number(flags, name);
  FM_USER_CHECK(!value || *value <= 1.0, "--", name, " must be a number from 0 to 1; correct it (",
                flags.text(name), ")");
  return value;
}

engine::SamplingFlags sampling_of(const FlagValues& flags) {
  engine::SamplingFlags sampling{
      .temperature = number(flags, "temperature"),
      .top_k = flags.given("top_k") ? std::optional(flags.integer("top_k", 0)) : std::nullopt,
      .top_p = share(flags, "top_p"),
      .min_p = share(flags, "min_p"),
      .repetition_penalty = number(flags, "repetition_penalty"),
      .seed = static_cast<std::uint64_t>(flags.integer("seed", 0))};
  FM_USER_CHECK(sampling.repetition_penalty.value_or(1.0) > 0,
                "--repetition_penalty must be above 0; 1 changes nothing (",
                flags.text("repetition_penalty"), ")");
  return sampling;
}

// What the flags ask for is one thing.
void check(const engine::GenerateOptions& options) {
  FM_USER_CHECK(!options.ckpt.empty(), "a model is required; give --ckpt DIR");
  const bool scores = !options.score.empty();
  const int asked = static_cast<int>(!options.prompt.empty()) +
                    static_cast<int>(!options.prompt_file.empty()) + static_cast<int>(scores);
  FM_USER_CHECK(asked <= 1 && !(scores && options.chat),
                "at most one of --prompt, --prompt_file and --score is possible, and --chat with "
                "the first two only; leave the others out");
  FM_USER_CHECK(options.chat || options.system.empty(),
                "--system is a message of a conversation; give --chat, too");
  const engine::SamplingFlags& sampling = options.sampling;
  const bool draws = sampling.temperature || sampling.top_k || sampling.top_p || sampling.min_p ||
                     sampling.repetition_penalty;
  FM_USER_CHECK(!scores || (!draws && options.stops.empty()),
                "--score continues no text; leave --stop and the flags of sampling out");
  FM_USER_CHECK(options.output.empty() || scores || !options.prompt_file.empty(),
                "--output is for --prompt_file and --score; leave it out");
  const bool empty = std::any_of(options.stops.begin(), options.stops.end(),
                                 [](const std::string& stop) { return stop.empty(); });
  FM_USER_CHECK(!empty, "--stop must be a text of one character or more");
}

void put_adapter(engine::GenerateOptions& options, const std::string& given) {
  const std::string adapter = split_adapter(options.ckpt, given, "--ckpt");
  if (!adapter.empty()) options.lora = read_adapter(adapter);
}

}  // namespace

ExportCommand parse_export_command(std::span<const std::string> words) {
  ExportCommand command;
  const SplitWords split = split_words(words, kExportRows);
  const std::vector<std::string> normal = normalise_argv(split.flagged, kExportRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(export_program(), normal);
  FM_USER_CHECK(split.plain.size() == 2,
                "a checkpoint and a folder to write are required: fmengine-export CHECKPOINT OUT (",
                core::join(split.plain, " "), ")");
  command.options = {.checkpoint = split.plain[0],
                     .out = split.plain[1],
                     .dtype = flags.text("dtype"),
                     .model_config = flags.text("model_config")};
  return command;
}

std::string export_help_text() { return help_text(export_program()); }

ReportCommand parse_report_command(std::span<const std::string> words) {
  ReportCommand command;
  const SplitWords split = split_words(words, kReportRows);
  command.runs = split.plain;
  const std::vector<std::string> normal = normalise_argv(split.flagged, kReportRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(report_program(), normal);
  FM_USER_CHECK(!command.runs.empty() && command.runs.size() <= report::kMostRuns,
                "the folder of a run is required, or those of up to ", report::kMostRuns,
                " to compare; give what --output_dir was: fmengine-report OUT (",
                core::counted(command.runs.size(), "folder"), ")");
  const bool one = command.runs.size() == 1;
  command.out = flags.text("out");
  if (command.out.empty()) {
    command.out =
        std::filesystem::path(command.runs[0]) / (one ? "report.html" : "comparison.html");
  }
  command.trace = flags.text("trace");
  command.text = flags.flag("text");
  FM_USER_CHECK(one || command.trace.empty(),
                "--trace is of one run; name one folder, or leave it out (", command.trace, ")");
  return command;
}

std::string report_help_text() { return help_text(report_program()); }

BlackboxCommand parse_blackbox_command(std::span<const std::string> words) {
  BlackboxCommand command;
  const SplitWords split = split_words(words, kBlackboxRows);
  const std::vector<std::string> normal = normalise_argv(split.flagged, kBlackboxRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(blackbox_program(), normal);
  FM_USER_CHECK(split.plain.size() == 1,
                "the folder of one run is required; give what --output_dir was: "
                "fmengine-blackbox OUT (",
                core::counted(split.plain.size(), "folder"), ")");
  command.folder = split.plain[0];
  command.before = flags.flag("before");
  command.json = flags.flag("json");
  command.last = static_cast<std::size_t>(flags.integer("last", 0));
  return command;
}

std::string blackbox_help_text() { return help_text(blackbox_program()); }

TokenizeCommand parse_tokenize_command(std::span<const std::string> words) {
  TokenizeCommand command;
  const std::vector<std::string> normal = normalise_argv(words, kTokenizeRows).words;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(tokenize_program(), normal);
  for (const char* name : {"tokenizer", "data_path", "out"}) {
    FM_USER_CHECK(flags.given(name),
                  "a tokenizer, text and a name are required: fmengine-tokenize ",
                  "--tokenizer FOLDER --data_path FILES --out PATH (--", name, " is missing)");
  }
  command.tokenizer = flags.text("tokenizer");
  command.chat_template = flags.text("chat_template");
  command.extra.tokens = flags.tokens("add_tokens");
  command.extra.eos = flags.text("eos_token");
  command.text_field = flags.text("text_field");
  command.text_first = flags.given("text_field");
  command.train_on_inputs = flags.flag("train_on_inputs");
  if (flags.given("threads")) {
    command.threads = static_cast<int>(flags.integer("threads", 1, machine::kMostThreads));
  }
  command.options.paths = flags.list("data_path");
  command.options.rows = read_row_options(flags);
  command.options.out = flags.text("out");
  command.options.layout = flags.choice<prepare::TokenLayout>(
      "data_format", {{"tokens_i32", prepare::TokenLayout::kFlat},
                      {"tokens", prepare::TokenLayout::kFlat},
                      {"megatron", prepare::TokenLayout::kMegatron}});
  command.options.skip_bad_lines = flags.integer("skip_bad_lines", 0);
  return command;
}

std::string tokenize_help_text() { return help_text(tokenize_program()); }

GenerateCommand parse_generate_command(std::span<const std::string> words) {
  const std::vector<std::string> normal = normalise_argv(words, kGenerateRows).words;
  GenerateCommand command;
  command.help = std::find(normal.begin(), normal.end(), "--help") != normal.end();
  command.version = std::find(normal.begin(), normal.end(), "--version") != normal.end();
  if (command.help || command.version) return command;
  const FlagValues flags(generate_program(), normal);
  command.options = {.ckpt = flags.text("ckpt"),
                     .tokenizer = flags.text("tokenizer"),
                     .dtype = dtype_of(flags),
                     .prompt = flags.text("prompt"),
                     .prompt_file = flags.text("prompt_file"),
                     .chat = flags.flag("chat"),
                     .system = flags.text("system"),
                     .score = flags.text("score"),
                     .output = flags.text("output"),
                     .batch_size = flags.integer("batch_size", 1),
                     .max_new_tokens = flags.integer("max_new_tokens", 0),
                     .stops = flags.list("stop"),
                     .sampling = sampling_of(flags)};
  command.device = read_device(flags);
  check(command.options);
  put_adapter(command.options, flags.text("adapter"));
  return command;
}

std::string generate_help_text() { return help_text(generate_program()); }

}  // namespace fm::cli

#include "engine/infer/generate.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "checkpoint/foreign_folder.h"
#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/files/output_file.h"
#include "engine/infer/cached_model.h"
#include "engine/infer/chat_session.h"
#include "engine/infer/completion.h"
#include "engine/infer/model_text.h"
#include "engine/infer/score_texts.h"
#include "engine/plan/adapter_file.h"
#include "engine/shown/folder_notes.h"
#include "model/opened_model.h"
#include "text/jinja/json_text.h"

namespace fm::engine {
namespace {

// A prompt that is being continued.
struct Active {
  std::size_t number;
  Sequence sequence;
  Completion completion;
};

std::string json_line(const Prompt& prompt, const Completion& completion) {
  jinja::Values ids;
  for (const std::int32_t id : completion.ids()) ids.emplace_back(std::int64_t{id});
  return jinja::to_json(
             jinja::make_dict({{"prompt", prompt.text},
                               {"completion", completion.text()},
                               {"tokens", jinja::make_list(std::move(ids))},
                               {"finish_reason", completion.whole() ? "stop" : "length"}}),
             {}) +
         "\n";
}

// Where JSON lines go, each at once and whole: a file, or the console.
class Lines {
 public:
  Lines(const std::string& path, const Console& console) : path_(path), console_(console) {
    if (path.empty()) return;
    file_.reset(std::fopen(path.c_str(), "we"));
    core::check_output({"file of the lines", "--output"}, path, file_ ? 0 : errno);
  }
  void write(const std::string& line) {
    if (!file_) return console_.write(line);
    const bool whole = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                       std::fflush(file_.get()) == 0;
    FM_MACHINE_CHECK(whole, core::ExitCode::kStorageFailed, path_, ": ", std::strerror(errno));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string path_;
  const Console& console_;
  std::unique_ptr<std::FILE, Close> file_;  // null: the console
};

// Continues all prompts, a few at a time.
class PromptRun {
 public:
  PromptRun(CachedModel& model, const ModelText& text, const CompletionLimits& limits)
      : model_(model), text_(text), limits_(limits) {}

  // report(number of the prompt, completion), in order.
  template <class Report>
  void run(const std::vector<Prompt>& prompts, std::int64_t batch_size, const Report& report) {
    std::vector<std::string> lines(prompts.size());
    std::vector<bool> ready(prompts.size());
    std::size_t next = 0;
    std::size_t reported = 0;
    while (next < prompts.size() || !active_.empty()) {
      // One joins per call, so that the longest prompt decides about memory.
      if (next < prompts.size() && std::ssize(active_) < batch_size) {
        begin(prompts[next], next);
        ++next;
      }
      step();
      std::erase_if(active_, [&](const std::unique_ptr<Active>& each) {
        if (!each->completion.done()) return false;
        lines[each->number] = json_line(prompts[each->number], each->completion);
        ready[each->number] = true;
        return true;
      });
      while (reported < next && ready[reported]) report(lines[reported++]);
    }
  }

 private:
  void begin(const Prompt& prompt, std::size_t number) {
    active_.push_back(std::make_unique<Active>(
        Active{number, start(model_, prompt, limits_),
               Completion(text_, limits_, prompt, static_cast<std::int64_t>(number))}));
  }

  void step() {
    std::vector<Sequence*> sequences;
    std::vector<Completion*> completions;
    for (const auto& each : active_) {
      if (each->completion.done()) continue;
      sequences.push_back(&each->sequence);
      completions.push_back(&each->completion);
    }
    if (sequences.empty()) return;
    const std::span<const float> logits = model_.next_logits(sequences);
    const auto vocab = static_cast<std::size_t>(model_.vocab());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      completions[i]->put(logits.subspan(i * vocab, vocab), *sequences[i]);
    }
  }

  CachedModel& model_;
  const ModelText& text_;
  const CompletionLimits& limits_;
  std::vector<std::unique_ptr<Active>> active_;
};

void continue_one(CachedModel& model, const ModelText& text, const CompletionLimits& limits,
                  const Prompt& prompt, const Console& console) {
  if (!prompt.answers) console.write(prompt.text);
  Sequence sequence = start(model, prompt, limits);
  Completion completion(text, limits, prompt, 0);
  stream(model, sequence, completion, console);
  console.write("\n");
}

// Trainers save the tokenizer with the adapters, with the template that these were trained on.
std::string tokenizer_folder(const GenerateOptions& options) {
  if (!options.tokenizer.empty()) return options.tokenizer;
  const std::string& adapter = options.lora.start;
  return !adapter.empty() && checkpoint::has_tokenizer(adapter) ? adapter : options.ckpt;
}

// As peft's AutoPeftModel: the base has a row for each id of the adapter's own tokenizer. 0: it has
// none.
std::int64_t ids_of_adapter(const GenerateOptions& options) {
  const std::string& adapter = options.lora.start;
  if (adapter.empty()) return 0;
  const std::int64_t whole = options.lora.modules_to_save.empty() ? 0 : vocabulary_rows(adapter);
  if (whole > 0 || !checkpoint::has_tokenizer(adapter)) return whole;
  return tokenizer::open_tokenizer(adapter)->id_limit();
}

}  // namespace

void generate(const GenerateOptions& options, const Console& console, core::Device* device) {
  const std::filesystem::path folder = options.ckpt;
  const std::string foreign = checkpoint::foreign_folder(folder);
  FM_DATA_CHECK(foreign.empty(), foreign);
  FM_DATA_CHECK(std::filesystem::is_directory(folder),
                "--ckpt must be a Hugging Face folder; check the path (", options.ckpt, ")");
  const model::OpenedModel opened =
      model::open_model(folder / "config.json",
                        {.vocab_at_least = ids_of_adapter(options), .element = options.dtype});
  const ModelText text(tokenizer_folder(options), opened.model.vocab, end_ids(folder));
  for (const std::string& note :
       {note_of_unknown_keys(opened.facts), note_of_other_tokenizer(options.tokenizer, folder)}) {
    if (!note.empty()) console.note(note);
  }
  CachedModel model(opened, folder, options.lora, device);
  if (!options.score.empty()) {
    std::vector<Sequence> sequences = read_sequences(model, text, options.score);
    Lines lines(options.output, console);  // a file that was there stays until all is read
    score_texts(model, std::move(sequences), [&](const std::string& line) { lines.write(line); });
    return;
  }
  const Sampling sampling = choose_sampling(folder, options.sampling);
  for (const std::string& note : sampling.notes) console.note(note);
  const CompletionLimits limits{.max_new_tokens = options.max_new_tokens,
                                .stops = options.stops,
                                .sampler = sampling.sampler};
  if (!options.prompt_file.empty()) {
    const std::vector<Prompt> prompts = read_prompts(
        {options.prompt_file, options.chat, options.system, model.max_positions() - 1}, text);
    Lines lines(options.output, console);
    PromptRun(model, text, limits).run(prompts, options.batch_size, [&](const std::string& line) {
      lines.write(line);
    });
  } else if (options.chat && options.prompt.empty()) {
    ChatSession(model, text, limits, options.system).run(console);
  } else {
    const Prompt prompt = options.chat
                              ? text.of_conversation(text.ask(options.system, options.prompt))
                              : text.of_text(options.prompt);
    continue_one(model, text, limits, prompt, console);
  }
}

}  // namespace fm::engine

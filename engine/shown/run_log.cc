#include "engine/shown/run_log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "core/types.h"
#include "engine/plan/default_schedule.h"
#include "engine/plan/device_cards.h"
#include "engine/plan/disk_need.h"
#include "engine/plan/run_model.h"
#include "engine/plan/save_room.h"
#include "engine/plan/time_estimate.h"

namespace fm::engine {
namespace {

// Terminal, ECMA-48.
constexpr const char* kYellow = "\033[33m";
constexpr const char* kBold = "\033[1m";
constexpr const char* kPlain = "\033[0m";
constexpr std::int64_t kPhasesEvery = 10;  // lines

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string card_of(const RunContext& context) {
  return context.computes.device == nullptr ? "" : context.computes.device->name();
}

// Of what computes the run. Nothing: a card that is not known.
std::optional<StepRate> rate_of(const KnownRun& run, const RunContext& context) {
  const int ranks = run.plan->mesh.size();
  if (run.options.device.kind == DeviceKind::kCuda && context.computes.device != nullptr) {
    return rate_of_cards(card_of(context), run.options.element, ranks);
  }
  return rate_of_cores(run.options.element, ranks * run.plan->threads);
}

std::string megabytes(core::Bytes bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(bytes.count()) / 1e6);
  return text;
}

int columns_of(const RunContext& context) {
  return context.columns ? context.columns() : kFileColumns;
}

// Facts of the banner: what goes on stands below the fact's first word.
std::string wrapped_facts(const std::string& text, int columns) {
  std::string out;
  for (const std::string& line : core::split(text, '\n')) {
    out += wrapped(line, {columns, line.starts_with("  ") ? 13 : 4}) + "\n";
  }
  out.pop_back();
  return out;
}

// A terminal, and nobody has set NO_COLOR.
bool has_colours(const RunContext& context) {
  return context.terminal && std::getenv("NO_COLOR") == nullptr;
}

// Of the whole run.
double highest_rate(const TrainOptions& options) {
  constexpr std::int64_t kPlaces = 1000;
  const std::int64_t every =
      core::ceil_div(std::max<std::int64_t>(1, options.train_steps), kPlaces);
  double highest = 0.0;
  for (std::int64_t step = 0; step < options.train_steps; step += every) {
    highest = std::max(highest, optim::rates(options.scheduler, options.optimizer.lr, step).lr);
  }
  return highest;
}

// Rates that random weights and adapters learn at.
std::string high_rate_note(const TrainOptions& options) {
  constexpr double kHigh = 2e-4;
  const bool all = options.train.empty() && options.freeze.empty() && options.lora.r == 0;
  if (!all || weights_folder(options).empty()) return "";
  const double rate = highest_rate(options);
  if (rate < kHigh) return "";
  return core::concat("all weights of a given model are trained at a rate of up to ", rate,
                      ", at which it may forget what it knows; 1e-5 to 5e-5 are usual "
                      "(configs/sft.json), 2e-4 with adapters (configs/lora.json)");
}

}  // namespace

ProductSpeed product_speed(const TrainOptions& options, std::string_view card) {
  if (options.device.kind == DeviceKind::kCuda) {
    const std::optional<CardRates> rates = card_rates(card);
    return {.bf16_gain = rates ? rates->bf16_product / rates->fp32_product : 1.0};
  }
  const bool narrow = options.element != core::DType::kF32;
  return {.type_is_slow = narrow && !kernels::gemm_is_fast(options.element)};
}

std::vector<std::string> notes_of(const KnownRun& run, const ProductSpeed& products) {
  std::vector<std::string> notes = notes_of(run.options, products);
  notes.insert(notes.end(), run.data.notes.begin(), run.data.notes.end());
  std::string waiting =
      run.plan == nullptr
          ? ""
          : waiting_saves_note(run.options, run.plan->copies_saves, run.plan->offload);
  if (!waiting.empty()) notes.push_back(std::move(waiting));
  if (run.plan == nullptr) return notes;
  std::string order = default_schedule_note(run.options, run.plan->schedule);
  if (!order.empty()) notes.push_back(std::move(order));
  std::string gathers = regather_note(run.options, run.plan->rules.plan.regather);
  if (!gathers.empty()) notes.push_back(std::move(gathers));
  return notes;
}

std::vector<std::string> notes_of(const TrainOptions& options, const ProductSpeed& products) {
  std::vector<std::string> notes = options.notes;
  if (products.type_is_slow) {
    const std::string type(core::name_of(options.element));
    notes.push_back(type + " is slow here, its products are " +
                    kernels::gemm_library(options.element) + "; --precision fp32 is faster");
  }
  if (options.element == core::DType::kF32 && products.bf16_gain > 1.0) {
    notes.push_back(core::concat("fp32 is slow on this GPU: its products are ",
                                 std::llround(products.bf16_gain),
                                 " times as fast with --precision bf16"));
  }
  if (std::string note = high_rate_note(options); !note.empty()) notes.push_back(std::move(note));
  if (options.post_validation && options.pipe_parallel_size == 1) {
    notes.emplace_back("--post_validation has no effect: there is one pipe rank");
  }
  return notes;
}

std::string banner(const KnownRun& run, const RunContext& context, std::int64_t done,
                   const std::optional<MeasuredTime>& measured) {
  const TrainOptions& options = run.options;
  std::string out = "fmengine: " + options.project_name + " / " + options.experiment_name + "\n";
  out += banner_lines(run_facts(run));
  for (int rank = 0; rank < run.plan->mesh.pipe; ++rank) {
    const MemoryForecast memory = run.plan->memory(rank);
    out +=
        core::concat("  memory     pipe rank ", rank, ", MB per rank: params ",
                     megabytes(memory.params), ", grads ", megabytes(memory.grads), ", optimizer ",
                     megabytes(memory.optimizer), ", slots ", megabytes(memory.slots), ", scratch ",
                     megabytes(memory.scratch), ", activations ", megabytes(memory.activations),
                     memory.saves.count() > 0 ? ", saves " + megabytes(memory.saves) : "",
                     memory.drives.count() > 0 ? ", drives " + megabytes(memory.drives) : "", "\n");
  }
  const auto row = [&](const std::string& head, const std::string& words) {
    if (!words.empty()) out += head + words + "\n";
  };
  row("  disk       ",
      text_of(disk_need(options, run.opened, done), free_on_disk(options.output_dir)));
  const std::int64_t left = std::max<std::int64_t>(0, options.train_steps - done);
  if (measured) {
    row("  time       ", text_of(*measured, left));
  } else if (const auto rate = options.eval_only ? std::nullopt : rate_of(run, context)) {
    row("  time       ", estimate_text(rate->seconds(run.plan->flops_in_step_time()), left, *rate));
  }
  row("  machine    ", context.machine);
  out = wrapped_facts(out, columns_of(context));
  const std::vector<std::string> notes = notes_of(run, product_speed(options, card_of(context)));
  const bool colours = has_colours(context);
  if (!notes.empty()) out += std::string(colours ? kYellow : "") + "notes\n";
  for (const std::string& note : notes) {
    // A file is searched for whole messages.
    out += (context.terminal ? wrapped("  - " + note, {columns_of(context), 4}) : "  - " + note) +
           "\n";
  }
  return out + (colours && !notes.empty() ? kPlain : "");
}

std::string start_line(const KnownRun& run, const RunContext& context, std::int64_t done) {
  nlohmann::json facts = nlohmann::json::object();
  for (const Fact& fact : run_facts(run)) {
    facts[fact.name] = fact.json == "null" && !fact.words.empty()
                           ? nlohmann::json(fact.words)
                           : nlohmann::json::parse(fact.json);
  }
  nlohmann::json lines = nlohmann::json::array();
  for (const auto& [name, words] : lines_of(run_facts(run))) lines.push_back({name, words});
  const ProductSpeed products = product_speed(run.options, card_of(context));
  const nlohmann::json start = {{"time", unix_time()},
                                {"version", context.version},
                                {"from_step", done},
                                {"ranks", run.plan->mesh.size()},
                                {"notes", notes_of(run, products)},
                                {"facts", facts},
                                {"lines", lines}};
  return nlohmann::json{{"start", start}}.dump(-1, ' ', false,
                                               nlohmann::json::error_handler_t::replace);
}

RunLog::RunLog(const TrainOptions& options, const RunContext& context, bool speaks)
    : speaks_(speaks),
      terminal_(context.terminal),
      colours_(has_colours(context)),
      columns_(context.columns ? context.columns : [] { return kFileColumns; }),
      peak_flops_(context.peak_flops),
      log_steps_(options.log_steps),
      log_phases_(options.log_phases),
      from_elsewhere_(options.resume == checkpoint::Resume::kPath) {
  if (!speaks || options.dry_run) return;
  metrics_.emplace(std::filesystem::path(options.output_dir) / "metrics.jsonl");
}

RunLog::~RunLog() { end_live_line(); }

void RunLog::begin_after(std::int64_t step) {
  if (!metrics_) return;
  KeptRows found = metrics_->keep_until(step);
  start_before_ = std::move(found.last_start);
  if (!found.problem.empty()) {
    warn("metrics.jsonl keeps rows of steps that are done again; for each the last row counts (" +
         found.problem + ")");
  }
  if (found.cut > 0) {
    say(core::concat("metrics.jsonl is cut back to step ", step, ": ", found.cut,
                     " rows are in metrics.replaced.jsonl now"));
  }
  if (!found.missing.empty() && !(from_elsewhere_ && found.rows == 0)) {
    warn(core::concat("metrics.jsonl lacks the rows of steps ", found.missing,
                      ", from before step ", step + 1));
  }
}

std::function<std::string()> RunLog::sync_later() const {
  if (!metrics_) return nullptr;
  return [sync = metrics_->sync_later()]() -> std::string {
    const std::string problem = sync();
    if (problem.empty()) return "";
    return "metrics.jsonl may lose lines at a power cut (" + problem + ")";
  };
}

void RunLog::introduce(const KnownRun& run, const RunContext& context, std::int64_t done) {
  if (!speaks_) return;
  const std::string start = start_line(run, context, done);
  const bool left = done < run.options.train_steps && !start_before_.empty();
  say(banner(run, context, done, left ? measured_time(start_before_, start) : std::nullopt));
  start_before_.clear();
  const DiskNeed need = disk_need(run.options, run.opened, done);
  const std::optional<core::Bytes> free = free_on_disk(run.options.output_dir);
  std::string full = warning_of(need, run.options, free);
  const bool fits_later =
      !full.empty() && warning_of(need, run.options, *free + pruned_later(run.options)).empty();
  if (fits_later) full.clear();
  if (!full.empty()) warn(full);
  // If it cannot be written, the first step's line says so.
  if (metrics_ && !run.options.eval_only) metrics_->append(start);
}

void RunLog::evaluation(std::int64_t step, double loss, std::int64_t rows) {
  if (!speaks_) return;
  StepLine line;
  line.step = step;
  line.unix_time = unix_time();
  line.eval_loss = loss;
  say(painted(kBold, evaluation_of(line, rows)));
  const std::string problem = metrics_ ? metrics_->append(evaluation_json(line, rows)) : "";
  if (!problem.empty()) warn("metrics.jsonl lacks this evaluation (" + problem + ")");
}

void RunLog::note(const std::string& text, const std::string& json) {
  if (!speaks_) return;
  say(text);
  const std::string problem = metrics_ ? metrics_->append(json) : "";
  if (!problem.empty()) warn("metrics.jsonl lacks this note (" + problem + ")");
}

void RunLog::step(StepLine line) {
  if (!speaks_) return;
  line.unix_time = unix_time();
  line.peak_flops = peak_flops_;
  totals_.add(line);
  line.seconds_left = totals_.seconds_left(line);
  const std::string problem = metrics_ ? metrics_->append(json_of(line)) : "";
  if (!problem.empty() && !std::exchange(lacks_lines_, true)) {
    warn(core::concat("metrics.jsonl lacks lines from step ", line.step,
                      " on, training continues; make space in the output directory (", problem,
                      ")"));
  }
  bar_ = terminal_ && line.step < line.last_step ? std::optional(line) : std::nullopt;
  // A terminal sees every step at its foot, and of steps that are shorter than that a few lines.
  const std::int64_t rhythm = terminal_ && log_steps_ == 1 ? 10 : log_steps_;
  const bool due = rhythm > 0 && (line.step % rhythm == 0 || line.step == line.last_step);
  if (due || line.skipped) print(line);
  if (line.eval_loss) say(painted(kBold, evaluation_of(line)));
  draw_bar();
}

void RunLog::print(const StepLine& line) {
  StepLine shown = line;
  shown.mean_loss = totals_.mean_loss();
  const int columns = std::min(columns_(), kFileColumns);
  say(line.skipped ? painted(kYellow, text_of(shown, columns)) : text_of(shown, columns));
  const bool phases = log_phases_ || lines_++ % kPhasesEvery == kPhasesEvery - 1;
  if (phases) say(wrapped(phases_of(line), {columns, 10}));
}

// Not wrapped at the terminal's edge: what runs over it could not be taken back.
void RunLog::draw_bar() {
  if (!bar_) return;
  std::printf("\r\033[K\033[?7l%s\033[?7h", bar_of(*bar_, columns_()).c_str());
  std::fflush(stdout);
  live_ = true;
}

void RunLog::say_untrained(const std::string& text) {
  constexpr int kMost = 5;
  if (++untrained_ > kMost) return;
  say(painted(kYellow,
              text + (untrained_ == kMost ? "; further such steps have no such line" : "")));
}

std::string RunLog::painted(const char* colour, const std::string& text) const {
  return colours_ ? colour + text + kPlain : text;
}

void RunLog::summary(const std::string& model, const std::vector<std::string>& next) {
  bar_.reset();
  if (const std::string text = totals_.summary(model, next); !text.empty()) say(text);
}

void RunLog::say(const std::string& text) {
  if (!speaks_) return;
  end_live_line();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  draw_bar();
}

void RunLog::warn(const std::string& text) {
  if (!speaks_) return;
  end_live_line();
  std::fprintf(stderr, "fmengine: %s\n", text.c_str());
  draw_bar();
}

void RunLog::end_live_line() {
  if (live_) {
    std::printf("\r\033[K");
    std::fflush(stdout);  // before what stands on stderr
  }
  live_ = false;
}

}  // namespace fm::engine

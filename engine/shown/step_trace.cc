#include "engine/shown/step_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/roster.h"
#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/plan/pipe_prediction.h"

namespace fm::engine {
namespace {

using core::DType;
using core::Elements;

constexpr std::size_t kCapacity = 1U << 19;    // events of a rank, 29 MB; a step has some thousands
constexpr std::size_t kClockRounds = 33;       // barriers; odd, so that one is in the middle
constexpr std::size_t kMostAtOnce = 4U << 20;  // bytes of text in one message

// The same for ranks whose steady clocks are one.
std::int64_t clock_name() {
  const std::string boot = core::boot_id();
  std::error_code none;
  const auto time_namespace = std::filesystem::read_symlink("/proc/self/ns/time", none);
  const std::string name = boot.empty() ? core::host_name() : boot;
  return static_cast<std::int64_t>(std::hash<std::string>{}(name + time_namespace.string()));
}

std::vector<std::int64_t> gather(comm::Communicator& world, std::span<const std::int64_t> mine) {
  const Elements count(std::ssize(mine));
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(world.size()));
  world
      .all_gather({mine.data(), count, DType::kI64},
                  {all.data(), count * world.size(), DType::kI64})
      .finish();
  return all;
}

comm::ConstSpan bytes_of(std::string_view text) {
  return {text.data(), Elements(std::ssize(text)), DType::kU8};
}

const char* category_of(core::TraceKind kind) {
  switch (kind) {
    case core::TraceKind::kStep: return "step";
    case core::TraceKind::kInstruction: return "instruction";
    case core::TraceKind::kPart: return "part";
    case core::TraceKind::kCollective: return "collective";
    case core::TraceKind::kKernel: return "kernel";
  }
  return "?";
}

// 1234567 -> 1234.567: no digit is lost in a long run, as in a double's six.
std::string microseconds(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%s%lld.%03lld", ns < 0 ? "-" : "",
                std::abs(static_cast<long long>(ns / 1000)),
                std::abs(static_cast<long long>(ns % 1000)));
  return text;
}

// Work per nanosecond is 1e9 of it per second.
std::string rate_of(const char* argument, std::int64_t work, std::int64_t ns) {
  const std::string_view name(argument);
  if (ns <= 0 || (name != "flops" && name != "bytes")) return "";
  char text[64];
  std::snprintf(text, sizeof(text), ", \"%s\": %.4g", name == "flops" ? "GFLOP/s" : "GB/s",
                static_cast<double>(work) / static_cast<double>(ns));
  return text;
}

// `text` holds what a host or a layout is called.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    if (static_cast<unsigned char>(letter) >= 0x20) out += letter;
  }
  return out + "\"";
}

}  // namespace

std::int64_t clock_ahead(std::span<const std::int64_t> mine, std::span<const std::int64_t> zero) {
  std::vector<std::int64_t> differences;
  for (std::size_t i = 0; i < mine.size(); ++i) differences.push_back(mine[i] - zero[i]);
  const auto middle = differences.begin() + std::ssize(differences) / 2;
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

StepTrace::StepTrace(const TrainOptions& options, comm::Communicator& world)
    : options_(options), steps_(options.trace_steps), world_(world), recorder_(kCapacity) {
  if (world.rank() != 0) return;
  file_.emplace(options.trace);
  core::check_output({"trace", "--trace"}, options.trace, file_->error());
}

void StepTrace::begin(std::int64_t steps, const RunPlan& plan) {
  FM_USER_CHECK(steps >= steps_.first,
                "--trace_steps must begin within this start's steps; lower the first one or leave "
                "--trace out (",
                steps_.first, "-", steps_.last, " of ", steps, ")");
  if (world_.rank() == 0) prediction_ = pipe_prediction(options_, plan);
}

core::TraceRecorder* StepTrace::recorder_of(std::int64_t nth) {
  if (nth < steps_.first || nth > steps_.last) return nullptr;
  last_ = nth;
  return &recorder_;
}

std::int64_t StepTrace::find_clock_ahead() {
  const std::int64_t name = clock_name();
  const std::vector<std::int64_t> names = gather(world_, {&name, 1});
  if (std::all_of(names.begin(), names.end(), [&](auto other) { return other == names[0]; })) {
    return 0;
  }
  std::array<std::int64_t, kClockRounds> mine{};
  for (std::int64_t& time : mine) {
    world_.barrier().finish();
    time = core::trace_now();
  }
  const std::vector<std::int64_t> all = gather(world_, mine);
  const bool same = name == names[0];
  return same ? 0 : clock_ahead(mine, std::span(all).first(kClockRounds));
}

std::string StepTrace::text_of_events(std::int64_t zero_ns) const {
  const int rank = world_.rank();
  std::string out = json_of_rank(rank, comm::name_of(comm::this_process(rank)));
  for (const core::TraceEvent& event : recorder_.events()) {
    out += ",\n" + json_of(event, rank, zero_ns);
  }
  return out;
}

// Rank after rank into the file, in pieces: rank 0 never holds another rank's whole text.
void StepTrace::collect(std::span<const Summary> of_ranks, const std::string& mine) {
  if (world_.rank() > 0) {
    for (std::size_t at = 0; at < mine.size(); at += kMostAtOnce) {
      world_.send(bytes_of(std::string_view(mine).substr(at, kMostAtOnce)), 0).finish();
    }
    return;
  }
  file_->add("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + mine);
  std::string piece;
  for (int rank = 1; rank < world_.size(); ++rank) {
    file_->add(",\n");
    auto left = static_cast<std::size_t>(of_ranks[static_cast<std::size_t>(rank)].text_bytes);
    while (left > 0) {
      piece.resize(std::min(left, kMostAtOnce));
      world_.receive({piece.data(), Elements(std::ssize(piece)), DType::kU8}, rank).finish();
      file_->add(piece);
      left -= piece.size();
    }
  }
}

StepTrace::Outcome StepTrace::finish(std::span<const Summary> of_ranks) {
  std::int64_t events = 0;
  std::int64_t dropped = 0;
  std::string dropped_of_ranks;
  for (const Summary& rank : of_ranks) {
    events += rank.events;
    dropped += rank.dropped;
    dropped_of_ranks += core::concat(dropped_of_ranks.empty() ? "" : ", ", rank.dropped);
  }
  const std::string prediction = prediction_.empty() ? "" : ", \"prediction\": " + prediction_;
  file_->add("\n], \"otherData\": {\"dropped_events\": [" + dropped_of_ranks + "]" + prediction +
             "}}\n");
  const std::string problem = file_->finish();
  if (!problem.empty())
    return {"there is no trace, training goes on (" + options_.trace + ": " + problem + ")", true};
  std::string text =
      core::concat("trace of steps ", steps_.first, "-", last_, " of this start: ", options_.trace,
                   ", ", core::counted(world_.size(), "rank"), ", ", events, " events");
  if (dropped > 0) {
    text += core::concat("; ", dropped, " more did not fit: trace fewer steps with --trace_steps");
  }
  return {text, false};
}

StepTrace::Outcome StepTrace::write() {
  written_ = true;
  const std::int64_t ahead = find_clock_ahead();
  const std::span<const core::TraceEvent> events = recorder_.events();
  const std::int64_t first = events.front().begin_ns - ahead;  // the step itself
  const std::vector<std::int64_t> firsts = gather(world_, {&first, 1});
  const std::int64_t zero = *std::min_element(firsts.begin(), firsts.end());
  const std::string mine = text_of_events(zero + ahead);
  const Summary summary{first, std::ssize(events), recorder_.dropped(), std::ssize(mine)};
  std::vector<Summary> all(static_cast<std::size_t>(world_.size()));
  const Elements size(sizeof(Summary));
  world_.all_gather({&summary, size, DType::kU8}, {all.data(), size * world_.size(), DType::kU8})
      .finish();
  collect(all, mine);
  return world_.rank() == 0 ? finish(all) : Outcome{};
}

std::string json_of(const core::TraceEvent& event, int rank, std::int64_t zero_ns) {
  const std::int64_t spent = event.end_ns - event.begin_ns;
  std::string out = core::concat(
      R"({"name": ")", event.form->name, R"(", "cat": ")", category_of(event.form->kind),
      R"(", "ph": "X", "pid": )", rank, R"(, "tid": )", event.on_queue ? 1 : 0, R"(, "ts": )",
      microseconds(event.begin_ns - zero_ns), R"(, "dur": )", microseconds(spent));
  std::string arguments;
  for (std::size_t at = 0; at < core::kTraceValues; ++at) {
    const char* const name = event.form->arguments[at];
    const std::int64_t value = event.values[at];
    if (name == nullptr || value == core::kNoValue) continue;
    arguments += core::concat(arguments.empty() ? "" : ", ", '"', name, "\": ", value,
                              rate_of(name, value, spent));
  }
  if (!arguments.empty()) out += ", \"args\": {" + arguments + "}";
  return out + "}";
}

std::string json_of_rank(int rank, const std::string& name) {
  const auto meta = [&](const char* what, const std::string& argument) {
    return core::concat(R"({"name": ")", what, R"(", "ph": "M", "pid": )", rank,
                        R"(, "tid": 0, "args": {)", argument, "}}");
  };
  return core::concat(meta("process_name", "\"name\": " + quoted(name)), ",\n",
                      meta("process_sort_index", core::concat("\"sort_index\": ", rank)));
}

}  // namespace fm::engine

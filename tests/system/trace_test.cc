// --trace of two processes: what stands in the file against the schedule and the model's sizes.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

using nlohmann::json;

constexpr int kSteps = 4;
constexpr int kTraced = 2;  // steps 2 and 3

// In nanoseconds, exact.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool holds(const Range& other) const { return begin <= other.begin && other.end <= end; }
};

struct Event {
  std::string name;
  Range time;
  json args;
};

struct RankEvents {
  std::vector<Event> instructions;
  std::vector<Event> kernels;
  std::vector<Event> collectives;
  std::vector<Event> steps;
};

std::int64_t ns(const json& microseconds) { return std::llround(microseconds.get<double>() * 1e3); }

std::map<int, RankEvents> events_in(const json& trace) {
  std::map<int, RankEvents> ranks;
  for (const json& at : trace.at("traceEvents")) {
    if (at.at("ph") != "X") continue;
    RankEvents& rank = ranks[at.at("pid")];
    const std::int64_t begin = ns(at.at("ts"));
    const Event event{at.at("name"), {begin, begin + ns(at.at("dur"))}, at.value("args", json())};
    const std::string category = at.at("cat");
    if (category == "instruction") rank.instructions.push_back(event);
    if (category == "kernel") rank.kernels.push_back(event);
    if (category == "collective") rank.collectives.push_back(event);
    if (category == "step") rank.steps.push_back(event);
  }
  return ranks;
}

// The pictures of pipeline/instruction.h, by the names of the trace.
std::string picture_of(const Event& event) {
  static const std::map<std::string, std::string> kPictures = {
      {"count", "K"},      {"load", "L"},         {"send_act", "sa"}, {"recv_act", "ra"},
      {"send_grad", "sg"}, {"recv_grad", "rg"},   {"gather", "g"},    {"release", "r"},
      {"forward", "F"},    {"loss", "X"},         {"backward", "B"},  {"recompute", "C"},
      {"reduce", "R"},     {"reduce_tied", "Rt"}, {"norm", "N"},      {"update", "u"},
      {"publish", "p"},    {"report", "O"}};
  std::string out = kPictures.at(event.name);
  if (event.args.contains("micro")) out += core::concat(event.args.at("micro").get<int>());
  if (event.args.contains("unit")) out += core::concat(".", event.args.at("unit").get<int>());
  return out + " ";
}

class Traced : public SystemCase {
 protected:
  SmallRun small_run(int zero_stage, std::vector<std::string> more) const {
    return {.config = small_config(folder(), zero_stage),
            .model = odd_model(folder(), false),
            .data = small_tokens(folder(), 24),
            .output = folder() / "plain",
            .steps = kSteps,
            .more = std::move(more)};
  }

  json traced_run(SmallRun run) {
    run_well(launch(run));
    const StepTexts plain = steps_in(run.output);
    run.output = folder() / "traced";
    const std::string file = (folder() / "trace.json").string();
    run.more.insert(run.more.end(), {"--trace", file, "--trace_steps", "2-3"});
    const Ended ended = run_well(launch(run));
    EXPECT_EQ(occurrences(ended.out, "trace of steps 2-3"), 1) << ended.out;
    EXPECT_EQ(first_difference(plain, steps_in(run.output), kSteps), "");
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-")) << entry.path();
    }
    return json::parse(content_of(file));
  }

  // programs of the pipe ranks
  json planned(const SmallRun& run) {
    std::vector<std::string> words = words_of(run);
    words.insert(words.end(), {"--plan", "--json", "--plan_ranks", "2"});
    const Ended ended = run_well({.starter = Starter::kAlone, .words = words, .variables = {}});
    return json::parse(ended.out).at("programs");
  }

  static Launch launch(const SmallRun& run) {
    return {.starter = Starter::kMpirun, .ranks = 2, .words = words_of(run), .variables = {}};
  }
};

void expect_program(const RankEvents& rank, const std::string& program) {
  std::string got;
  for (const Event& event : rank.instructions) got += picture_of(event);
  std::string wanted;
  for (int step = 0; step < kTraced; ++step) wanted += program;
  EXPECT_EQ(got, wanted);
}

std::int64_t end_of_instructions(const RankEvents& rank, const Event& step) {
  std::int64_t end = 0;
  for (const Event& at : rank.instructions) {
    if (step.time.holds(at.time)) end = std::max(end, at.time.end);
  }
  return end;
}

// Every kernel and verb lies in one instruction (but the wait for what was sent last, which belongs
// to the end of the step), and an instruction is at least as long as
// the kernels in it; the same for instructions and steps.
void expect_nesting(const RankEvents& rank) {
  std::size_t kernels = 0;
  std::size_t collectives = 0;
  for (const Event& outer : rank.instructions) {
    std::int64_t inside = 0;
    for (const Event& kernel : rank.kernels) {
      if (!outer.time.holds(kernel.time)) continue;
      inside += kernel.time.end - kernel.time.begin;
      ++kernels;
    }
    EXPECT_LE(inside, outer.time.end - outer.time.begin) << outer.name;
    for (const Event& verb : rank.collectives) collectives += outer.time.holds(verb.time) ? 1 : 0;
    const auto holds = [&](const Event& step) { return step.time.holds(outer.time); };
    EXPECT_EQ(std::count_if(rank.steps.begin(), rank.steps.end(), holds), 1) << outer.name;
  }
  EXPECT_EQ(kernels, rank.kernels.size());
  for (const Event& step : rank.steps) {
    const Range after{end_of_instructions(rank, step), step.time.end};
    for (const Event& verb : rank.collectives) {
      collectives += verb.name == "send" && after.holds(verb.time) ? 1 : 0;
    }
  }
  EXPECT_EQ(collectives, rank.collectives.size());
  EXPECT_EQ(rank.steps.size(), static_cast<std::size_t>(kTraced));
}

// Matrices of odd_model; forward, gradient of the input and of the weight are two operations per
// element and token each.
double gemm_flops() {
  constexpr double D = 96, KV = 32, F = 250, V = 777, layers = 5, tokens = 4 * 32;
  const double matrices = layers * (2 * D * D + 2 * KV * D + 3 * D * F) + V * D;
  return kTraced * tokens * 6 * matrices;
}

double flops_in(const std::map<int, RankEvents>& ranks) {
  double sum = 0;
  for (const auto& [rank, events] : ranks) {
    for (const Event& kernel : events.kernels) {
      if (kernel.name != "gemm") continue;
      const auto size = [&](const char* name) { return kernel.args.at(name).get<double>(); };
      EXPECT_EQ(size("flops"), 2 * size("m") * size("n") * size("k"));
      sum += size("flops");
    }
  }
  return sum;
}

TEST_F(Traced, DataRanksShowTheirProgramTheirKernelsAndTheModelsProducts) {
  const SmallRun run = small_run(3, {"--shm", "false"});
  const auto ranks = events_in(traced_run(run));
  ASSERT_EQ(ranks.size(), 2U);
  const json programs = planned(run);
  for (const auto& [rank, events] : ranks) {
    SCOPED_TRACE(rank);
    expect_program(events, programs.at(0));
    expect_nesting(events);
  }
  EXPECT_EQ(flops_in(ranks), gemm_flops());
}

TEST_F(Traced, PipeRanksDoTheSame) {
  const SmallRun run = small_run(1, {"--pipe_parallel_size", "2"});
  const auto ranks = events_in(traced_run(run));
  ASSERT_EQ(ranks.size(), 2U);
  const json programs = planned(run);
  for (const auto& [rank, events] : ranks) {
    SCOPED_TRACE(rank);
    expect_program(events, programs.at(static_cast<std::size_t>(rank)));
    expect_nesting(events);
  }
  EXPECT_EQ(flops_in(ranks), gemm_flops());
}

// Gradients of 4 bytes cross once per micro-batch and unit: 2 micro-batches a rank and step.
TEST_F(Traced, CollectivesCarryTheirBytes) {
  const auto ranks = events_in(traced_run(small_run(2, {})));
  constexpr double kParameters =
      2 * 777.0 * 96 + 96 + 5 * (2 * 96 * 96 + 2 * 32 * 96 + 3 * 96 * 250 + 2 * 96);
  for (const auto& [rank, events] : ranks) {
    double bytes = 0;
    for (const Event& verb : events.collectives) {
      if (verb.name == "reduce_scatter") bytes += verb.args.at("bytes").get<double>();
    }
    const double wanted = 4 * kParameters * 2 * kTraced;
    EXPECT_GE(bytes, wanted) << rank;
    EXPECT_LE(bytes, 1.05 * wanted) << rank;  // units are padded to whole blocks
  }
}

TEST_F(Traced, APlaceThatCannotBeIsOneErrorBeforeTheRun) {
  const SmallRun run = small_run(2, {"--trace", (folder() / "no" / "t.json").string()});
  const Ended ended = this->run(launch(run));
  EXPECT_EQ(ended.codes.at(0), 10) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "choose one with --trace FILE"), 1) << ended.err;
  EXPECT_EQ(content_of(run.output / "metrics.jsonl"), "");
}

}  // namespace
}  // namespace fm::system

// SIGTERM and SIGINT: save, then exit 75. SIGUSR1: save and go on. Either way no step is lost or
// done twice.
#include <signal.h>

#include <chrono>
#include <sstream>

#include "core/check.h"
#include "tests/comm/free_port.h"
#include "tests/system/long_run.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

enum class To : std::uint8_t { kEveryRank, kOneRank, kLauncher };

struct Terminated {
  Starter starter;
  To to;
  int code;  // of what was started
  int signal = SIGTERM;
};

void PrintTo(const Terminated& at, std::ostream* out) { *out << name_of(at.starter); }

class Signals : public LongRun {
 protected:
  void send(const Job& job, To to, int signal) {
    if (to == To::kLauncher) return send_to(job.started()[0], signal);
    if (to == To::kEveryRank) send_to(job.rank_pid(0), signal);
    send_to(job.rank_pid(1), signal);
  }

  static void send_to(pid_t pid, int signal) { EXPECT_EQ(kill(pid, signal), 0); }

  int last_step() const { return steps_in(output()).rbegin()->first; }
};

// As small_config, in the canonical order, without clipping.
std::string write_unclipped(const std::filesystem::path& folder) {
  return write_file(folder / "unclipped.json", R"({"train_batch_size": 4,
    "train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0, "zero_optimization": {"stage": 1},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "communication_order": "canonical"})");
}

std::string name_of_case(const testing::TestParamInfo<Terminated>& at) {
  constexpr const char* kTo[] = {"EveryRank", "OneRank", "Launcher"};
  return std::string(at.param.signal == SIGINT ? "Interrupt" : "") + name_of(at.param.starter) +
         "To" + kTo[static_cast<int>(at.param.to)];
}

class Term : public Signals, public testing::WithParamInterface<Terminated> {};

TEST_P(Term, SavesExits75AndTheNextStartLosesNothing) {
  const Interrupted run{.starter = GetParam().starter, .steps = kEndless, .save_steps = 0};
  Launch launch = launch_of(run);
  // A busy disk takes longer than the second that mpirun gives.
  if (run.starter == Starter::kMpirun) {
    launch.variables.emplace_back("OMPI_MCA_odls_base_sigkill_timeout=10");
  }
  const std::unique_ptr<Job> job = start(launch);
  wait_for_step(*job, output(), 60);
  send(*job, GetParam().to, GetParam().signal);
  const Ended ended = job->wait(kLimitMs);
  for (const int code : ended.codes) EXPECT_EQ(code, GetParam().code) << ended.out << ended.err;
  // A busy machine's note apart.
  EXPECT_EQ(occurrences(ended.err, "fmengine"), occurrences(ended.err, "fmengine: the AMX unit"))
      << ended.err;
  const int last = last_step();
  EXPECT_EQ(content_of(output() / "latest"), core::concat("global_step", last));
  EXPECT_EQ(occurrences(ended.out, "start the same command again to go on"), 1) << ended.out;

  const Ended second = resume_to_the_end({.steps = last + 40, .save_steps = 0});
  EXPECT_EQ(occurrences(second.out, core::concat("resuming at step ", last, ",")), 1) << second.out;
}

// torchrun passes a SIGINT on to ranks that have it from the terminal too: that is one.
// What a launcher returns after a signal of its own is its affair: 1 with both. mpirun waits one
// second before it passes SIGTERM on, and gives ranks one more until SIGKILL (--mca
// odls_base_sigkill_timeout N is both); torchrun gives thirty.
INSTANTIATE_TEST_SUITE_P(All, Term,
                         testing::Values(Terminated{Starter::kByHand, To::kEveryRank, 75},
                                         Terminated{Starter::kByHand, To::kOneRank, 75},
                                         Terminated{Starter::kMpirun, To::kEveryRank, 75},
                                         Terminated{Starter::kMpirun, To::kLauncher, 1},
                                         Terminated{Starter::kTorchrun, To::kLauncher, 1},
                                         Terminated{Starter::kByHand, To::kOneRank, 75, SIGINT},
                                         Terminated{Starter::kTorchrun, To::kLauncher, 1, SIGINT}),
                         name_of_case);

// Steps that nothing clips end before their norm is known; behind a signal one does not, and is
// saved. The reference trains without a pipeline.
TEST_F(Signals, ATermBehindStepsThatEndAheadLosesNothing) {
  SmallRun small{.config = write_unclipped(folder()),
                 .model = small_model(folder()),
                 .data = small_tokens(folder(), 200),
                 .output = output(),
                 .steps = kEndless,
                 .more = {"--pipe_parallel_size", "2", "--post_validation", "--log_steps", "100"}};
  Launch launch{.starter = Starter::kByHand, .ranks = 2, .words = words_of(small), .variables = {}};
  const std::unique_ptr<Job> job = start(launch);
  wait_for_step(*job, output(), 60);
  send(*job, To::kOneRank, SIGTERM);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{75, 75})) << ended.err;
  const int last = last_step();
  EXPECT_EQ(content_of(output() / "latest"), core::concat("global_step", last));
  EXPECT_GT(occurrences(content_of(output() / "metrics.jsonl"), "\"kept\""), 0);
  small.steps = last + 40;
  launch.words = words_of(small);
  run_well(launch);
  small.output = folder() / "alone";
  small.more = {};
  run_well({.starter = Starter::kAlone, .ranks = 1, .words = words_of(small), .variables = {}});
  EXPECT_EQ(first_difference(steps_in(folder() / "alone"), steps_in(output()), small.steps), "");
}

// Rank 1 is never started; the limit is ten minutes. Rank 0 waits for it once it listens.
TEST_F(Signals, ATermBeforeTheRanksHaveMetEndsAtOnce) {
  const comm::HeldPort port;
  Launch launch = launch_of({.starter = Starter::kAlone, .steps = 400, .save_steps = 0});
  launch.variables = {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1",
                      core::concat("MASTER_PORT=", port.number())};
  const std::unique_ptr<Job> job = start(launch);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return port.listened_at(); }));
  send_to(job->started()[0], SIGTERM);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, std::vector<int>{75}) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "SIGTERM before the ranks have met"), 1) << ended.err;
}

// A line of /proc/PID/status, or "".
std::string status_of(pid_t pid, const std::string& name) {
  std::istringstream lines(content_of(core::concat("/proc/", pid, "/status")));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return "";
}

// A child that nobody has waited for has ended all the same.
bool has_ended(pid_t pid) { return status_of(pid, "State:").find('Z') != std::string::npos; }

// Whether the process has taken a signal that was sent to it.
bool has_taken(pid_t pid, int signal) {
  const std::string pending = status_of(pid, "ShdPnd:");
  return pending.empty() || (std::stoull(pending, nullptr, 16) >> (signal - 1) & 1U) == 0;
}

// Rank 0 waits for a rank that stands still. A batch system sends SIGTERM, mpirun its own: signals
// within five seconds of the first one are one.
TEST_F(Signals, ATermFiveSecondsAfterTheFirstEndsARankThatWaits) {
  const std::unique_ptr<Job> job =
      start(launch_of({.starter = Starter::kByHand, .steps = kEndless, .save_steps = 0}));
  wait_for_step(*job, output(), 2);
  const pid_t rank0 = job->rank_pid(0);
  send_to(job->rank_pid(1), SIGSTOP);
  const auto first = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually(kLimitMs, [&] {
    if (has_ended(rank0)) return true;
    send_to(rank0, SIGTERM);
    return false;
  }));
  EXPECT_GE(std::chrono::steady_clock::now() - first, std::chrono::seconds(5)) << "too soon";
  send_to(job->rank_pid(1), SIGCONT);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{143, 20})) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "SIGTERM again: ending without a save"), 1) << ended.err;
}

// There is no third signal: a rank that took the second for the first would wait for ever.
TEST_F(Signals, ASecondInterruptOfTheSameSenderEndsAtOnce) {
  const std::unique_ptr<Job> job =
      start(launch_of({.starter = Starter::kByHand, .steps = kEndless, .save_steps = 0}));
  wait_for_step(*job, output(), 2);
  const pid_t rank0 = job->rank_pid(0);
  send_to(job->rank_pid(1), SIGSTOP);
  send_to(rank0, SIGINT);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return has_taken(rank0, SIGINT); }));
  EXPECT_EQ(occurrences(job->written("err"), "SIGINT"), 0) << "the first one is a message";
  send_to(rank0, SIGINT);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return has_ended(rank0); }));
  send_to(job->rank_pid(1), SIGCONT);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{130, 20})) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "SIGINT again: ending without a save"), 1) << ended.err;
}

// What is lost is said at the next line; the save comes all the same.
TEST_F(Signals, ATermSavesWhereTheOutputDirectoryWasDeleted) {
  const std::unique_ptr<Job> job =
      start(launch_of({.starter = Starter::kByHand, .steps = kEndless, .save_steps = 0}));
  wait_for_step(*job, output(), 2);
  std::filesystem::remove_all(output());
  ASSERT_TRUE(eventually(
      kLimitMs, [&] { return occurrences(job->written("err"), "metrics.jsonl lacks lines") > 0; }));
  send_to(job->rank_pid(1), SIGTERM);
  const Ended ended = job->wait(kLimitMs);
  EXPECT_EQ(ended.codes, (std::vector<int>{75, 75})) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "metrics.jsonl lacks lines"), 1) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "deleted or replaced during the run"), 1) << ended.err;
  const std::string saved = content_of(output() / "latest");
  EXPECT_TRUE(std::filesystem::exists(output() / saved / "MANIFEST.json")) << saved;
}

class Usr1 : public Signals, public testing::WithParamInterface<Terminated> {};

TEST_P(Usr1, SavesAndGoesOn) {
  const Interrupted run{.starter = GetParam().starter, .steps = kEndless, .save_steps = 0};
  const std::unique_ptr<Job> job = start(launch_of(run));
  wait_for_step(*job, output(), 60);
  send(*job, GetParam().to, SIGUSR1);
  ASSERT_TRUE(eventually(kLimitMs, [&] { return !content_of(output() / "latest").empty(); }));
  const std::string saved = content_of(output() / "latest");
  ASSERT_TRUE(saved.starts_with("global_step")) << saved;
  EXPECT_TRUE(std::filesystem::exists(output() / saved / "MANIFEST.json"));
  const int step = std::stoi(saved.substr(std::string("global_step").size()));
  wait_for_step(*job, output(), step + 40);
  send(*job, GetParam().to, SIGTERM);
  const Ended ended = job->wait(kLimitMs);
  for (const int code : ended.codes) EXPECT_EQ(code, GetParam().code) << ended.out << ended.err;
  const StepTexts steps = first_steps(output(), kLongest);
  EXPECT_EQ(first_difference(uninterrupted(), steps, steps.rbegin()->first), "");
}
INSTANTIATE_TEST_SUITE_P(All, Usr1,
                         testing::Values(Terminated{Starter::kByHand, To::kOneRank, 75},
                                         Terminated{Starter::kMpirun, To::kLauncher, 1}),
                         name_of_case);

}  // namespace
}  // namespace fm::system

// Ranks started by hand that cannot meet: killed or ended ones, and ranks of other jobs.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/check.h"
#include "tests/comm/free_port.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

constexpr const char* kFarS = "600";  // a limit that no test reaches

// Accepts by the kernel alone, and says nothing.
class SilentListener {
 public:
  explicit SilentListener(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;  // the port is held
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
  }
  ~SilentListener() { close(fd_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

 private:
  int fd_;
};

class RendezvousByHand : public SystemCase {
 protected:
  struct Rank {
    int rank = 0;
    int world_size = 2;
    std::string output = "output";
    std::string timeout_s = kFarS;
    std::vector<std::string> variables = {};
  };

  std::unique_ptr<Job> start_rank(const Rank& at) {
    if (data_.empty()) data_ = small_tokens(folder(), 16);
    const SmallRun run{.config = small_config(folder(), 1),
                       .model = small_model(folder()),
                       .data = data_,
                       .output = folder() / at.output,
                       .steps = 2,
                       .more = {"--timeout_s", at.timeout_s}};
    Launch launch{.starter = Starter::kAlone, .words = words_of(run), .variables = at.variables};
    launch.variables.insert(
        launch.variables.end(),
        {core::concat("RANK=", at.rank), core::concat("WORLD_SIZE=", at.world_size),
         "MASTER_ADDR=127.0.0.1", core::concat("MASTER_PORT=", port_.number())});
    return start(launch);
  }

  // With rank 2 missing, so that nothing goes on. Whoever sleeps after the connection stands waits
  // for an answer: rank 1 for its welcome, rank 0 for rank 2, rank 1 for the roster.
  void start_two_of_three() {
    for (const int rank : {0, 1}) {
      jobs_.push_back(start_rank({.rank = rank, .world_size = 3}));
    }
    ASSERT_TRUE(eventually(
        kLimitMs, [&] { return port_.connections() == 1 && sleeps(1) && sleeps(0) && sleeps(1); }));
  }

  bool sleeps(int rank) const {
    const pid_t pid = jobs_[static_cast<std::size_t>(rank)]->started()[0];
    const std::string stat = content_of(core::concat("/proc/", pid, "/stat"));
    return stat.find(") S ") != std::string::npos;
  }

  void send(int rank, int signal) {
    EXPECT_EQ(kill(jobs_[static_cast<std::size_t>(rank)]->started()[0], signal), 0);
  }

  const comm::HeldPort port_;
  std::string data_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

TEST_F(RendezvousByHand, AKilledRankEndsTheOthersAtOnceByName) {
  for (const int victim : {0, 1}) {
    jobs_.clear();
    start_two_of_three();
    send(victim, SIGKILL);
    const Ended ended = jobs_[static_cast<std::size_t>(1 - victim)]->wait(kLimitMs);
    EXPECT_EQ(ended.codes[0], 20) << ended.err;
    const pid_t pid = jobs_[static_cast<std::size_t>(victim)]->started()[0];
    EXPECT_EQ(occurrences(ended.err, core::concat("(rank ", victim, " (host ")), 1) << ended.err;
    EXPECT_EQ(occurrences(ended.err, core::concat(", pid ", pid, ") ended while the ranks met")), 1)
        << ended.err;
  }
}

TEST_F(RendezvousByHand, ATermOfAllEndsAllWithTheirOwnCode) {
  start_two_of_three();
  for (const int rank : {1, 0}) send(rank, SIGTERM);
  for (const auto& job : jobs_) {
    const Ended ended = job->wait(kLimitMs);
    EXPECT_EQ(ended.codes[0], 75) << ended.err;
    EXPECT_EQ(occurrences(ended.err, "SIGTERM before the ranks have met"), 1) << ended.err;
  }
}

TEST_F(RendezvousByHand, TwoJobsOfOnePortDoNotMix) {
  const auto first = start_rank({.rank = 0, .output = "first"});
  const auto there = [&] { return start_rank({.rank = 1, .output = "second"})->wait(kLimitMs); };
  Ended foreign = there();  // rank 0 may still be on its way
  EXPECT_EQ(foreign.codes[0], 14) << foreign.err;
  EXPECT_EQ(occurrences(foreign.err, "of another job answers, not that of --output_dir="), 1)
      << foreign.err;
  const Ended second = start_rank({.rank = 0, .output = "second"})->wait(kLimitMs);
  EXPECT_EQ(second.codes[0], 14) << second.err;
  EXPECT_EQ(occurrences(second.err,
                        core::concat("(127.0.0.1:", port_.number(), ": Address already in use")),
            1)
      << second.err;
  const Ended rank1 = start_rank({.rank = 1, .output = "first"})->wait(kLimitMs);
  const Ended rank0 = first->wait(kLimitMs);
  EXPECT_EQ(rank1.codes[0], 0) << rank1.err;
  EXPECT_EQ(rank0.codes[0], 0) << rank0.err;
  EXPECT_EQ(occurrences(rank0.err, "second there, "), 1) << rank0.err;
  EXPECT_EQ(steps_in(folder() / "first").size(), 2U);
}

// Hosts may know the folder by other names.
TEST_F(RendezvousByHand, RanksOfOneJobIdMayCallTheirFolderDifferently) {
  const std::vector<std::string> id = {"FME_JOB_ID=seven"};
  std::filesystem::create_directory(folder() / "first");
  std::filesystem::create_directory_symlink(folder() / "first", folder() / "other");
  const auto first = start_rank({.rank = 0, .output = "first", .variables = id});
  EXPECT_EQ(start_rank({.rank = 1, .output = "other", .variables = id})->wait(kLimitMs).codes[0],
            0);
  EXPECT_EQ(first->wait(kLimitMs).codes[0], 0);
}

// Without a limit rank 1 would wait for an answer for ever.
TEST_F(RendezvousByHand, ASilentListenerTakesTheLimitAndNoMore) {
  const SilentListener other(port_.number());
  // Torchrun's store too: LibTorch waits for its answer without end.
  const std::vector<std::string> agent = {"TORCHELASTIC_RUN_ID=x",
                                          "TORCHELASTIC_USE_AGENT_STORE=True"};
  for (const auto& variables : {std::vector<std::string>{}, agent}) {
    const Ended ended =
        start_rank({.rank = 1, .timeout_s = "2", .variables = variables})->wait(kLimitMs);
    EXPECT_EQ(ended.codes[0], 14) << ended.err;
    EXPECT_EQ(occurrences(ended.err, core::concat("127.0.0.1:", port_.number())), 1) << ended.err;
  }
}

}  // namespace
}  // namespace fm::system

// How a program ends.
#include "cli/ending.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"

namespace fm::cli {
namespace {

TEST(Ending, ErrorFileIsJsonWhateverTheMessageHolds) {
  const std::string text = error_file_json("a \"b\" \\ c\nd \x01 \xff\xfe \xC3\xA9", 1700000000);
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["message"]["message"], "a \"b\" \\ c\nd \x01 ?? ??");
  EXPECT_EQ(json["message"]["extraInfo"]["py_callstack"], json["message"]["message"]);
  EXPECT_EQ(json["message"]["extraInfo"]["timestamp"], "1700000000");
}

struct Outcome {
  int code;
  std::string said;
};

Outcome end_with(bool speaks, const std::function<int()>& body) {
  Ending ending("prog");
  ending.set_speaks(speaks);
  ::testing::internal::CaptureStderr();
  const int code = ending.run(body);
  return {code, ::testing::internal::GetCapturedStderr()};
}

TEST(Ending, EveryErrorBecomesOneLineAndItsCode) {
  const Outcome user = end_with(true, []() -> int { FM_USER_CHECK(false, "wrong flag"); });
  EXPECT_EQ(user.code, 10);
  EXPECT_EQ(user.said, "prog: wrong flag\n");
  EXPECT_EQ(end_with(true, []() -> int { FM_DATA_CHECK(false, "x"); }).code, 11);
  EXPECT_EQ(
      end_with(true, []() -> int { FM_MACHINE_CHECK(false, core::ExitCode::kPeerLost, "x"); }).code,
      20);
  EXPECT_EQ(end_with(true, []() -> int { throw std::bad_alloc(); }).code, 25);
  EXPECT_EQ(end_with(true, []() -> int { throw std::logic_error("odd"); }).said, "prog: odd\n");
  EXPECT_EQ(end_with(true, []() -> int { throw std::logic_error("odd"); }).code, 1);
  EXPECT_EQ(end_with(true, [] { return 75; }).code, 75);
}

// Where it was, for a rank that waited: not for errors of its own.
TEST(Ending, ARankThatWaitedForAnotherSaysWhereItWas) {
  const auto end = [](core::ExitCode code) {
    Ending ending("prog");
    ending.set_world_rank(1);
    ending.set_whereabouts([] { return "step 3, norm N, barrier #7 of group dp[0,1]"; });
    std::string told;
    ending.set_shut_down([&](int, const std::string& message) { told = message; });
    ::testing::internal::CaptureStderr();
    ending.run([&]() -> int { throw core::MachineError(code, "late"); });
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "prog: rank 1: " + told + "\n");
    return told;
  };
  const std::string place = "; rank 1 was in step 3, norm N, barrier #7 of group dp[0,1]";
  EXPECT_EQ(end(core::ExitCode::kHang), "late" + place);
  EXPECT_EQ(end(core::ExitCode::kPeerLost), "late" + place);
  EXPECT_EQ(end(core::ExitCode::kStorageFailed), "late");
  Ending follower("prog");
  follower.set_whereabouts([] { return "step 3"; });
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(follower.follow({.world_rank = 1, .exit_code = 20, .message = "rank 1 is lost"}), 20);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "rank 1 is lost; rank 0 was in step 3\n");
}

TEST(Ending, OnlyTrainingIsAdvisedToTrainOtherwise) {
  const auto advice = [](const char* program) {
    Ending ending(program);
    ::testing::internal::CaptureStderr();
    ending.run([]() -> int { throw std::bad_alloc(); });
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(advice("fmengine-train").find("--plan"), std::string::npos);
  for (const char* const other : {"fmengine-tokenize", "fmengine-export", "fmengine-report"}) {
    EXPECT_EQ(advice(other), std::string(other) +
                                 ": memory must suffice; give the process more, or "
                                 "less to do at once\n");
  }
}

TEST(Ending, OnlyTheSpeakerPrintsErrorsOfTheUser) {
  const Outcome user = end_with(false, []() -> int { FM_USER_CHECK(false, "wrong flag"); });
  EXPECT_EQ(user.code, 10);
  EXPECT_EQ(user.said, "");
  // All ranks find that the plan does not fit; that it did not fit in fact is one rank's.
  const auto too_large = []() -> int {
    throw core::UserError(core::ExitCode::kOutOfMemory, "too large");
  };
  EXPECT_EQ(end_with(false, too_large).code, 25);
  EXPECT_EQ(end_with(false, too_large).said, "");
  EXPECT_NE(end_with(false, []() -> int { throw std::bad_alloc(); }).said, "");
  const Outcome machine =
      end_with(false, []() -> int { FM_MACHINE_CHECK(false, core::ExitCode::kHang, "stuck"); });
  EXPECT_EQ(machine.said, "prog: stuck\n");
}

TEST(Ending, RanksAboveZeroSayWhoTheyAre) {
  Ending ending("prog");
  ending.set_world_rank(3);
  ::testing::internal::CaptureStderr();
  ending.run([]() -> int { FM_USER_CHECK(false, "wrong flag"); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "prog: rank 3: wrong flag\n");
  EXPECT_EQ(ending.line_of("newer"), "prog: rank 3: newer");
  Ending first("prog");
  first.set_world_rank(0);
  ::testing::internal::CaptureStderr();
  first.run([]() -> int { FM_USER_CHECK(false, "wrong flag"); });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "prog: wrong flag\n");
}

// The other ranks add the name of the failed rank when they print it.
TEST(Ending, TheOthersAreToldTheErrorAlone) {
  Ending ending("prog");
  ending.set_world_rank(3);
  std::string told;
  ending.set_shut_down(
      [&](int code, const std::string& line) { told = std::to_string(code) + " " + line; });
  ::testing::internal::CaptureStderr();
  ending.run([]() -> int { FM_DATA_CHECK(false, "no file"); });
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(told, "11 no file");
}

// A process that is killed while it clears up has left its code.
TEST(Ending, TheCodeIsWrittenDownBeforeAnythingThatMayBlock) {
  std::vector<std::string> calls;
  const auto fails = [&] {
    Ending ending("prog");
    ending.set_end_ms(60'000);
    ending.set_on_limit([&](int code) { calls.push_back("limit " + std::to_string(code)); });
    ending.set_shut_down(
        [&](int code, const std::string&) { calls.push_back("tell " + std::to_string(code)); });
    ending.run([]() -> int { throw core::MachineError(core::ExitCode::kStorageFailed, "full"); });
    for (const std::string& call : calls) std::fprintf(stderr, "%s;", call.c_str());
    std::_Exit(0);  // and the thread of the limit with it
  };
  EXPECT_EXIT(fails(), testing::ExitedWithCode(0), "prog: full\nlimit 26;tell 26;");
}

TEST(Ending, FollowingALostRankSaysSoOnceAndTakesItsCode) {
  Ending ending("prog");
  ::testing::internal::CaptureStderr();
  const comm::PeerLoss loss{.world_rank = 1, .exit_code = 20, .message = "rank 1 was lost"};
  EXPECT_EQ(ending.follow(loss), 20);
  EXPECT_EQ(ending.follow(loss), 20);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "rank 1 was lost\n");
}

TEST(Ending, AnErrorOfTheUserReadsTheSameWhoeverFoundIt) {
  ::testing::internal::CaptureStderr();
  Ending ending("prog");
  EXPECT_EQ(ending.follow({.world_rank = 2,
                           .exit_code = 10,
                           .message = "fmengine: rank 2 (host h, pid 5) reports exit code 10: no",
                           .reason = "no"}),
            10);
  Ending own("prog");
  own.set_world_rank(2);
  EXPECT_EQ(own.run([]() -> int { FM_USER_CHECK(false, "no"); }), 10);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "prog: rank 2: no\nprog: rank 2: no\n");
}

TEST(Ending, AQuietRankFollowsAnErrorOfTheUserQuietly) {
  Ending ending("prog");
  ending.set_speaks(false);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ending.follow({.world_rank = 0, .exit_code = 11, .message = "no such file"}), 11);
  Ending next("prog");
  next.set_speaks(false);
  EXPECT_EQ(next.follow({.world_rank = 0, .exit_code = 25, .message = "too large"}), 25);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Ending, TorchrunsErrorFileIsWritten) {
  const std::string path = ::testing::TempDir() + "error_file.json";
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  end_with(true, []() -> int { FM_USER_CHECK(false, "wrong \"flag\""); });
  unsetenv("TORCHELASTIC_ERROR_FILE");
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file)["message"]["message"], "wrong \"flag\"");
}

// The main thread fails while the watch hears that another rank did: torchrun's agent refuses a
// file that two of them wrote.
TEST(Ending, TwoFailuresAtOnceLeaveOneWholeErrorFile) {
  const std::string path = ::testing::TempDir() + "two_failures.json";
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 200; ++round) {
    Ending ending("prog");
    std::thread watch([&] {
      ending.follow({.world_rank = 1, .exit_code = 20, .message = std::string(5000, 'w')});
    });
    ending.run([]() -> int { FM_USER_CHECK(false, "short"); });
    watch.join();
    std::ifstream file(path);
    ASSERT_TRUE(nlohmann::json::accept(file)) << "round " << round;
  }
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 200);
}

// The exit code of a process that fails as `body` says, its stderr a pipe that is full.
int code_of(const std::function<void(Ending&)>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int ends[2] = {};
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(99);
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    const std::string page(4096, 'x');
    while (write(STDERR_FILENO, page.data(), page.size()) > 0) {
    }
    fcntl(STDERR_FILENO, F_SETFL, 0);
    Ending ending("prog");
    ending.set_end_ms(2'000);
    body(ending);
    _exit(98);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

[[noreturn]] void block_for_ever() {
  while (true) pause();
}

int fail_with_storage() {
  throw core::MachineError(core::ExitCode::kStorageFailed, "the disk is full");
}

TEST(Ending, ALineThatNobodyReadsKeepsNobody) {
  EXPECT_EQ(code_of([](Ending& ending) { _exit(ending.run(fail_with_storage) + 100); }), 126);
}

TEST(Ending, ATeardownThatBlocksIsCutShortWithTheCodeOfTheFailure) {
  EXPECT_EQ(code_of([](Ending& ending) {
              ending.run([&]() -> int {
                try {
                  fail_with_storage();
                } catch (...) {
                  ending.fail_now();
                  block_for_ever();
                }
                return 0;
              });
            }),
            26);
}

TEST(Ending, OtherRanksThatCannotBeToldKeepNobody) {
  EXPECT_EQ(code_of([](Ending& ending) {
              ending.set_shut_down([](int, const std::string&) { block_for_ever(); });
              ending.run(fail_with_storage);
            }),
            26);
}

// As another rank's failure meets one that cannot end.
TEST(Ending, AnEndAsAnotherRankIsLimitedToo) {
  EXPECT_EQ(code_of([](Ending& ending) {
              ending.follow({.world_rank = 1, .exit_code = 20, .message = "rank 1 ended"});
              block_for_ever();
            }),
            20);
}

}  // namespace
}  // namespace fm::cli

// How long a wait may take, to the millisecond: every nap moves a clock of the test.
#include "comm/verbs/progress.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tests/comm/clock.h"

namespace fm::comm {
namespace {

class Never : public Transfer {
 public:
  using Transfer::Transfer;
  bool done() const override { return false; }
};

// A fabric on which nothing comes. A nap takes as long as it may, or what the test says.
struct Naps {
  ManualClock clock;
  std::deque<int> next_ms = {};     // of naps to come, each instead of its limit
  std::vector<int> limits_ms = {};  // of naps that were taken
  int looks_into = 0;               // a message that does not come
};

class SilentFabric : public Fabric {
 public:
  explicit SilentFabric(Naps& naps) : naps_(naps) {}
  std::unique_ptr<Transfer> send(const void*, const Message& message) override {
    return std::make_unique<Never>(message);
  }
  std::unique_ptr<Transfer> receive(void*, const Message& message) override {
    return std::make_unique<Never>(message);
  }
  void progress(int limit_ms) override {
    naps_.limits_ms.push_back(limit_ms);
    naps_.clock.advance(naps_.next_ms.empty() ? limit_ms : naps_.next_ms.front());
    if (!naps_.next_ms.empty()) naps_.next_ms.pop_front();
  }
  void open_group(std::uint64_t, std::span<const int>) override {}
  void look_into(const Message&) override { ++naps_.looks_into; }
  std::string name() const override { return "silent"; }
  std::string peer_name(int world_rank) const override { return core::concat("rank ", world_rank); }

 private:
  Naps& naps_;
};

// The error of a wait that never ends, for an operation that `reports_before` other ranks may
// report first.
std::string words_of_a_wait(Naps& naps, int timeout_ms, int reports_before = 0) {
  class Receive : public Operation {
   public:
    Receive(std::shared_ptr<Progress> progress, int reports_before)
        : Operation(std::move(progress)), reports_before_(reports_before) {}
    int reports_before() const override { return reports_before_; }

   private:
    int reports_before_;
  };
  const auto progress =
      std::make_shared<Progress>(std::make_unique<SilentFabric>(naps), timeout_ms, naps.clock);
  Receive receive(progress, reports_before);
  receive.receive(nullptr, {.sequence = 4, .peer = 3, .bytes = core::Bytes(8)});
  try {
    receive.wait();
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kHang);
    return error.what();
  }
  return "it came";
}

int sum_of(const std::vector<int>& values) {
  int sum = 0;
  for (const int value : values) sum += value;
  return sum;
}

TEST(WaitLimit, IsReachedToTheMillisecondByNapsOfATenthOfASecond) {
  Naps naps;
  const std::string words = words_of_a_wait(naps, 350);
  EXPECT_EQ(naps.limits_ms, (std::vector<int>{100, 100, 100, 50}));
  EXPECT_NE(words.find("(waited 350 ms for rank 3 in send/receive, operation 4, 8 bytes)"),
            std::string::npos)
      << words;
}

TEST(WaitLimit, IsASecondLaterForEachRankThatMayReportFirst) {
  Naps naps;
  words_of_a_wait(naps, 350, 2);
  EXPECT_EQ(sum_of(naps.limits_ms), 350 + 2 * 1'000);
}

TEST(WaitLimit, DoesNotCountTimeInWhichTheProcessStoodStill) {
  Naps naps;
  naps.next_ms = {100, 5'000, 100, 60'000};
  words_of_a_wait(naps, 1'000);
  // A nap that took longer counts as one of a tenth of a second.
  EXPECT_EQ(naps.limits_ms, std::vector<int>(10, 100));
}

TEST(WaitLimit, CountsNapsThatTakeALittleLonger) {
  Naps naps;
  naps.next_ms = {900, 900, 900};
  words_of_a_wait(naps, 2'500);
  EXPECT_EQ(naps.limits_ms.size(), 3U);
}

TEST(WaitLimit, LooksOnceASecondForAPeerInAnotherOperation) {
  Naps naps;
  words_of_a_wait(naps, 5'500);
  EXPECT_EQ(naps.looks_into, 5);
}

}  // namespace
}  // namespace fm::comm

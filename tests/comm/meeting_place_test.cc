// Where rank 0 listens, and how the others find it.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "comm/meet/meeting.h"
#include "core/check.h"
#include "tests/comm/local_mesh.h"
#include "tests/comm/meeting_outcome.h"

namespace fm::comm {
namespace {

using core::ExitCode;

TEST(MeetingPlace, IsTheAddressOfMasterAddrAlone) {
  const int port = port_of(listen_on("127.0.0.1"));
  const Listener listener = listen_at("127.0.0.1", port, Deadline(1'000));
  EXPECT_EQ(listener.address, "127.0.0.1");
  EXPECT_FALSE(listener.everywhere);
  EXPECT_EQ(port_of(listener.socket), port);
  EXPECT_TRUE(connect_once({"127.0.0.1", port}, Deadline(1'000)).open());
  EXPECT_FALSE(connect_once({"127.0.0.2", port}, Deadline(1'000)).open());
}

TEST(MeetingPlace, IsEveryAddressWhereMasterAddrIsNoneOfThisHost) {
  const int port = port_of(listen_on("127.0.0.1"));
  const Listener listener = listen_at("192.0.2.1", port, Deadline(1'000));  // of documentation
  EXPECT_TRUE(listener.everywhere);
  EXPECT_TRUE(connect_once({"127.0.0.2", port}, Deadline(1'000)).open());
}

// A name like that of /etc/hosts on many hosts.
TEST(MeetingPlace, OfTheLoopbackDeviceIsSaidWhereRanksAreMissing) {
  const int port = port_of(listen_on("127.0.0.1"));
  const Outcome outcome = outcome_of([&] {
    return meet_at({"127.0.1.1", port}, rank_of(0, 2), {}, Deadline(50));
  });
  const std::string place = core::concat("127.0.1.1:", port);
  EXPECT_TRUE(has(outcome.error, " at " + place + ", where only this host reaches it, no sign of"))
      << outcome.error;
}

TEST(MeetingPlace, ThatIsTakenIsRefusedAtOnce) {
  const Socket other = listen_on("127.0.0.1");
  const Outcome outcome = outcome_of([&] {
    return meet_at({"127.0.0.1", port_of(other)}, rank_of(0, 2), {}, Deadline(5'000));
  });
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, core::concat("choose another port for all ranks (127.0.0.1:",
                                              port_of(other), ": Address already in use)")))
      << outcome.error;
  EXPECT_LT(outcome.spent_ms, 2'000);
}

// Connections of the job before are still open at its rank 0, or linger there.
TEST(MeetingPlace, IsFreeAgainWhenTheRanksHaveMet) {
  const int port = port_of(listen_on("127.0.0.1"));
  Listener first = listen_at("127.0.0.1", port, Deadline(1'000));
  const Socket line = connect_once({"127.0.0.1", port}, Deadline(1'000));
  const Socket accepted = accept_one(first.socket);
  ASSERT_TRUE(accepted.open());
  first.socket.close();
  EXPECT_NO_THROW(listen_at("127.0.0.1", port, Deadline(1'000)));
}

class MemoryStore : public MeetingStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> find(const std::string& key, const Deadline& deadline) override {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.contains(key); };
    const auto limit = std::chrono::milliseconds(deadline.left_ms());
    if (!changed_.wait_for(lock, limit, there)) return std::nullopt;
    return values_.at(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

class ByStore : public testing::Test {
 protected:
  Outcome meet(int rank, int limit_ms) {
    return outcome_of([&] { return meet_by(store_, rank_of(rank, 2), {}, Deadline(limit_ms)); });
  }
  MemoryStore store_;
};

TEST_F(ByStore, RanksFindRank0) {
  auto rank1 = std::async(std::launch::async, [this] { return meet(1, 5'000); });
  EXPECT_EQ(meet(0, 5'000).error, "");
  EXPECT_EQ(rank1.get().error, "");
}

TEST_F(ByStore, WhatAFormerRank0HasLeftIsAskedForAgain) {
  const std::string gone = core::concat("127.0.0.1 ", port_of(listen_on("127.0.0.1")), "\n");
  store_.set("rank0", "0 2 " + this_process(0).host + " 12 " + gone);
  auto rank1 = std::async(std::launch::async, [this] { return meet(1, 5'000); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(meet(0, 5'000).error, "");
  EXPECT_EQ(rank1.get().error, "");
}

TEST_F(ByStore, ARank0ThatLeavesNoAddressIsMissedAtTheLimit) {
  const Outcome outcome = meet(1, 50);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, "rank 1 of 2 waited 50 ms")) << outcome.error;
}

TEST_F(ByStore, ALoopbackAddressOfAnotherHostIsRefusedWithAdvice) {
  store_.set("rank0", "0 2 elsewhere 12 127.0.1.1 4000\n");
  const std::string error = meet(1, 2'000).error;
  EXPECT_TRUE(has(error, "rank 0 (host elsewhere, pid 12) listens on 127.0.1.1")) << error;
}

TEST_F(ByStore, WhatIsNoAddressIsRefused) {
  store_.set("rank0", "elsewhere 12 127.0.1.1");
  EXPECT_TRUE(has(meet(1, 2'000).error, "(found elsewhere 12 127.0.1.1)"));
}

}  // namespace
}  // namespace fm::comm

// Where rank 0 listens, and how the others find it.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>

#include "comm/meet/rendezvous.h"
#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/free_port.h"
#include "tests/comm/local_mesh.h"
#include "tests/comm/rendezvous_outcome.h"

namespace fm::comm {
namespace {

using core::ExitCode;

TEST(RendezvousAddress, IsTheAddressOfMasterAddrAlone) {
  const HeldPort held;
  const int port = held.number();
  const Listener listener = listen_at_one_of({{"127.0.0.1", port}}, "");
  EXPECT_EQ(listener.address, "127.0.0.1");
  EXPECT_FALSE(listener.everywhere);
  EXPECT_EQ(port_of(listener.socket), port);
  EXPECT_TRUE(connect_once({"127.0.0.1", port}, Deadline(kWatchdogMs)).open());
  EXPECT_FALSE(connect_once({"127.0.0.2", port}, Deadline(kWatchdogMs)).open());
}

TEST(RendezvousAddress, IsEveryAddressWhereMasterAddrIsNoneOfThisHost) {
  const HeldPort held;
  const int port = held.number();
  // An address of documentation.
  const Listener listener = listen_at_one_of({{"192.0.2.1", port}}, "");
  EXPECT_TRUE(listener.everywhere);
  EXPECT_TRUE(connect_once({"127.0.0.2", port}, Deadline(kWatchdogMs)).open());
}

// A name like that of /etc/hosts on many hosts.
TEST(RendezvousAddress, OfTheLoopbackDeviceIsSaidWhereRanksAreMissing) {
  const HeldPort held;
  const Outcome outcome = outcome_of([&] {
    return rendezvous_at({"127.0.1.1", held.number()}, rank_of(0, 2), {}, Deadline(50));
  });
  const std::string place = core::concat("127.0.1.1:", held.number());
  EXPECT_TRUE(has(outcome.error, " at " + place + ", where only this host reaches it, no sign of"))
      << outcome.error;
}

// Rank 0 sets SO_REUSEADDR, as the holder does; a socket without it, or a second listener, fails.
TEST(RendezvousAddress, ThatATestHoldsGoesToRank0Alone) {
  const HeldPort held;
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(held.number()));
  const Socket other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(bind(other.fd(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  EXPECT_FALSE(held.listened_at());
  EXPECT_FALSE(connect_once({"127.0.0.1", held.number()}, Deadline(kWatchdogMs)).open());
  const Listener rank0 = listen_at_one_of({{"127.0.0.1", held.number()}}, "");
  EXPECT_TRUE(held.listened_at());
  const Socket line = connect_once({"127.0.0.1", held.number()}, Deadline(kWatchdogMs));
  pollfd entry{.fd = rank0.socket.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, kWatchdogMs), 1);
  EXPECT_EQ(held.connections(), 1);
  EXPECT_THROW(listen_at_one_of({{"127.0.0.1", held.number()}}, ""), core::MachineError);
}

// Time stands still, so that nothing here ends at its limit.
TEST(RendezvousAddress, ThatIsTakenIsRefusedAtOnce) {
  const ManualClock still;
  const Socket other = listen_on("127.0.0.1");
  const Outcome outcome = outcome_of([&] {
    return rendezvous_at({"127.0.0.1", port_of(other)}, rank_of(0, 2), {}, Deadline(1, still));
  });
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, core::concat("choose another port for all ranks (127.0.0.1:",
                                              port_of(other), ": Address already in use)")))
      << outcome.error;
}

// Connections of the job before are still open at its rank 0, or linger there.
TEST(RendezvousAddress, IsFreeAgainWhenTheRanksHaveMet) {
  const HeldPort held;
  Listener first = listen_at_one_of({{"127.0.0.1", held.number()}}, "");
  const Socket line = connect_once({"127.0.0.1", held.number()}, Deadline(kWatchdogMs));
  pollfd entry{.fd = first.socket.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, kWatchdogMs), 1);
  const Socket accepted = accept_one(first.socket);
  ASSERT_TRUE(accepted.open());
  first.socket.close();
  const Listener second = listen_at_one_of({{"127.0.0.1", held.number()}}, "");
  EXPECT_EQ(port_of(second.socket), held.number());
}

class MemoryStore : public RendezvousStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> find(const std::string& key, const Deadline& deadline) override {
    std::unique_lock lock(mutex_);
    ++finds_;
    changed_.notify_all();
    const auto there = [&] { return values_.contains(key); };
    const auto limit = std::chrono::milliseconds(deadline.left_ms());
    if (!changed_.wait_for(lock, limit, there)) return std::nullopt;
    return values_.at(key);
  }
  // Until somebody has asked so many times.
  bool await_finds(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kWatchdogMs),
                             [&] { return finds_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  int finds_ = 0;
};

class ByStore : public testing::Test {
 protected:
  Outcome meet(int rank, int limit_ms) {
    return outcome_of(
        [&] { return rendezvous_by_store(store_, rank_of(rank, 2), {}, Deadline(limit_ms)); });
  }
  MemoryStore store_;
};

TEST_F(ByStore, RanksFindRank0) {
  auto rank1 = std::async(std::launch::async, [this] { return meet(1, kWatchdogMs); });
  EXPECT_EQ(meet(0, kWatchdogMs).error, "");
  EXPECT_EQ(rank1.get().error, "");
}

TEST_F(ByStore, WhatAFormerRank0HasLeftIsAskedForAgain) {
  const HeldPort nobody;
  const std::string gone = core::concat("127.0.0.1 ", nobody.number(), "\n");
  store_.set("rank0", "0 2 " + this_process(0).host + " 12 " + gone);
  auto rank1 = std::async(std::launch::async, [this] { return meet(1, kWatchdogMs); });
  ASSERT_TRUE(store_.await_finds(2));  // it has been there in vain
  EXPECT_EQ(meet(0, kWatchdogMs).error, "");
  EXPECT_EQ(rank1.get().error, "");
}

TEST_F(ByStore, ARank0ThatLeavesNoAddressIsMissedAtTheLimit) {
  const Outcome outcome = meet(1, 50);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, "rank 1 of 2 waited 50 ms")) << outcome.error;
}

TEST_F(ByStore, ALoopbackAddressOfAnotherHostIsRefusedWithAdvice) {
  store_.set("rank0", "0 2 elsewhere 12 127.0.1.1 4000\n");
  const std::string error = meet(1, kWatchdogMs).error;
  EXPECT_TRUE(has(error, "rank 0 (host elsewhere, pid 12) listens on 127.0.1.1")) << error;
}

TEST_F(ByStore, WhatIsNoAddressIsRefused) {
  store_.set("rank0", "elsewhere 12 127.0.1.1");
  EXPECT_TRUE(has(meet(1, kWatchdogMs).error, "(found elsewhere 12 127.0.1.1)"));
}

}  // namespace
}  // namespace fm::comm

// The watch over real sockets, ranks as threads: who is told what when a rank ends.
#include "comm/meet/watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <vector>

#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/local_mesh.h"

namespace fm::comm {
namespace {

using core::ExitCode;

// What every rank heard, by rank.
class Heard {
 public:
  explicit Heard(int ranks) : losses_(static_cast<std::size_t>(ranks)) {}
  OnPeerLost ear(int rank) {
    return [this, rank](const PeerLoss& loss) {
      const std::lock_guard lock(mutex_);
      losses_[static_cast<std::size_t>(rank)].push_back(loss);
      heard_.notify_all();
    };
  }
  std::vector<PeerLoss> of(int rank) {
    const std::lock_guard lock(mutex_);
    return losses_[static_cast<std::size_t>(rank)];
  }
  void await(int rank) {
    std::unique_lock lock(mutex_);
    heard_.wait_for(lock, std::chrono::milliseconds(kWatchdogMs),
                    [&] { return !losses_[static_cast<std::size_t>(rank)].empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  std::vector<std::vector<PeerLoss>> losses_;
};

Watch make_watch(int rank, LocalMesh& mesh, OnPeerLost ear, int limit_ms = kWatchdogMs) {
  return Watch({.world_rank = rank,
                .roster = mesh.roster,
                .limit_ms = limit_ms,
                .on_peer_lost = std::move(ear)},
               std::move(mesh.watch));
}

// The last rank comes first, and waits until rank 0 has come last.
TEST(Watch, AFarewellOfAllIsSilent) {
  Heard heard(4);
  std::latch turns[] = {std::latch(1), std::latch(1), std::latch(1), std::latch(1)};
  std::atomic<int> parted = 0;
  run_with_mesh(4, [&](int rank, LocalMesh mesh) {
    Watch watch = make_watch(rank, mesh, heard.ear(rank));
    if (rank < 3) turns[rank].wait();
    if (rank > 0) turns[rank - 1].count_down();
    watch.shut_down();
    ++parted;
  });
  EXPECT_EQ(parted, 4);
  for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(heard.of(rank).empty()) << rank;
}

class LostRank : public testing::TestWithParam<int> {};

TEST_P(LostRank, IsNamedToEveryOtherRankOnce) {
  const int lost = GetParam();
  Heard heard(3);
  Roster roster;
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    if (rank == lost) roster = mesh.roster;
    Watch watch = make_watch(rank, mesh, heard.ear(rank));
    if (rank == lost) return;  // destroyed without shut_down()
    heard.await(rank);
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto losses = heard.of(rank);
    ASSERT_EQ(losses.size(), rank == lost ? 0U : 1U) << "rank " << rank;
    if (rank == lost) continue;
    EXPECT_EQ(losses[0].exit_code, 20);
    EXPECT_EQ(losses[0].world_rank, lost);
    const Member& member = roster[static_cast<std::size_t>(lost)];
    EXPECT_EQ(losses[0].message,
              core::concat("fmengine: rank ", lost, " (host ", member.host, ", pid ", member.pid,
                           ") ended without farewell; every rank stops, restart to resume from "
                           "the last checkpoint (exit code 20)"));
  }
}

TEST_P(LostRank, WithWordsPassesOnItsCodeAndWords) {
  const int stopped = GetParam();
  Heard heard(3);
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    Watch watch = make_watch(rank, mesh, heard.ear(rank));
    if (rank == stopped) return watch.shut_down_with_error(11, "line 3: \"text\" is missing");
    heard.await(rank);
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto losses = heard.of(rank);
    ASSERT_EQ(losses.size(), rank == stopped ? 0U : 1U) << "rank " << rank;
    if (rank == stopped) continue;
    EXPECT_EQ(losses[0].exit_code, 11);
    EXPECT_NE(losses[0].message.find(core::concat("fmengine: rank ", stopped, " (host ")),
              std::string::npos);
    EXPECT_TRUE(losses[0].message.ends_with(") reports exit code 11: line 3: \"text\" is missing"))
        << losses[0].message;
  }
}
INSTANTIATE_TEST_SUITE_P(EachRank, LostRank, testing::Values(0, 1, 2));

TEST(Watch, ALossDuringTheFarewellEndsTheWait) {
  Heard heard(3);
  std::latch leaving(2);
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    Watch watch = make_watch(rank, mesh, heard.ear(rank));
    if (rank == 2) return leaving.wait();
    leaving.count_down();
    try {
      watch.shut_down();
      ADD_FAILURE() << "rank " << rank << " left although rank 2 was lost";
    } catch (const core::MachineError& error) {
      EXPECT_EQ(error.code(), ExitCode::kPeerLost);
      EXPECT_NE(std::string(error.what()).find("rank 2"), std::string::npos);
    }
  });
}

// The error of a shut_down() that ends at its limit.
std::string words_of_a_late_shutdown(Watch& watch) {
  try {
    watch.shut_down();
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), ExitCode::kHang) << error.what();
    return error.what();
  }
  return "left alone";
}

// Rank 1's leave is on its way to rank 0 for some time; who has come is not named any more.
TEST(Watch, AFarewellPastItsLimitNamesWhoHasNotCome) {
  Heard heard(3);
  std::string words;
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    Watch watch = make_watch(rank, mesh, heard.ear(rank), rank == 0 ? 20 : kWatchdogMs);
    if (rank == 2) heard.await(rank);
    if (rank == 1) {
      EXPECT_THROW(watch.shut_down(), core::MachineError);
    }
    const Deadline deadline(kWatchdogMs);
    while (rank == 0 && !deadline.passed()) {
      words = words_of_a_late_shutdown(watch);
      if (words.find("rank 1") == std::string::npos) return;
    }
  });
  EXPECT_NE(words.find("waited 20 ms for rank 2 (host "), std::string::npos) << words;
  EXPECT_EQ(words.find("rank 1"), std::string::npos) << words;
}

// The main thread of rank 1 is inside of MPI and cannot look at its limit.
TEST(Watch, ACallThatDoesNotReturnEndsEveryRank) {
  Heard heard(3);
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    const auto calls = std::make_shared<CallMark>();
    Watch watch({.world_rank = rank,
                 .roster = mesh.roster,
                 .limit_ms = rank == 1 ? 200 : kWatchdogMs,
                 .calls = calls,
                 .on_peer_lost = heard.ear(rank)},
                std::move(mesh.watch));
    if (rank != 1) return heard.await(rank);
    calls->run("MPI_Nothing", [&] {
      heard.await(rank);
      return 0;
    });
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto losses = heard.of(rank);
    ASSERT_EQ(losses.size(), 1U) << "rank " << rank;
    EXPECT_EQ(losses[0].exit_code, 21);
    EXPECT_EQ(losses[0].world_rank, 1);
    EXPECT_NE(losses[0].message.find(") was in MPI_Nothing for 200 ms)"), std::string::npos)
        << losses[0].message;
  }
}

TEST(Watch, AFrameOfNobodyCountsAsALossOfItsSender) {
  Heard heard(2);
  run_with_mesh(2, [&](int rank, LocalMesh mesh) {
    if (rank == 1) {
      const std::vector<std::byte> noise(64, std::byte{'?'});
      EXPECT_TRUE(send_fully(mesh.watch[0], noise, Deadline(kWatchdogMs)));
      std::byte byte{};
      receive_fully(mesh.watch[0], std::span(&byte, 1), Deadline(kWatchdogMs));
      return;
    }
    Watch watch = make_watch(rank, mesh, heard.ear(rank));
    heard.await(rank);
  });
  ASSERT_EQ(heard.of(0).size(), 1U);
  EXPECT_EQ(heard.of(0)[0].world_rank, 1);
}

}  // namespace
}  // namespace fm::comm

// The watch over real sockets, ranks as threads: who is told what when a rank ends.
#include "comm/meet/watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <span>
#include <string>
#include <thread>
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

// A world on a clock that the test moves: all ranks see the same time.
struct World {
  explicit World(int ranks) : heard(ranks), notices(static_cast<std::size_t>(ranks)) {}

  WatchOptions options(int rank, const LocalMesh& mesh) {
    return {.world_rank = rank,
            .roster = mesh.roster,
            .limit_ms = kWatchdogMs,
            .on_peer_lost = heard.ear(rank),
            .notify =
                [this, rank](const std::string& line) {
                  const std::lock_guard lock(mutex);
                  notices[static_cast<std::size_t>(rank)].push_back(line);
                },
            .state_of =
                [this](const Member& member) {
                  return member.world_rank == accused ? state : PeerState::kAlive;
                },
            .clock = &clock,
            .longest_sleep_ms = 5};
  }
  // Seconds pass until all these ranks have heard of a loss, so many at most.
  int seconds_until_heard(const std::vector<int>& ranks, int most) {
    const auto has_heard = [this](int rank) { return !heard.of(rank).empty(); };
    for (int second = 0; second < most; ++second) {
      if (std::ranges::all_of(ranks, has_heard)) return second;
      clock.advance(1'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for beats to arrive
    }
    return most;
  }

  ManualClock clock;
  Heard heard;
  int accused = -1;
  PeerState state = PeerState::kStopped;
  std::mutex mutex;
  std::vector<std::vector<std::string>> notices;
};

// A rank whose process is stopped: its connection is open, and nothing comes from it.
class StoppedRank : public testing::TestWithParam<int> {};

// Sends the first beats, so that it is known, then nothing.
void send_one_beat(int rank, const LocalMesh& mesh) {
  struct {
    std::uint32_t magic = 0x77617463U;
    std::uint32_t kind = 5;
    std::int32_t world_rank = 0;
    std::int32_t exit_code = 0;
    std::uint32_t length = 0;
  } header;
  const std::string beat = encode(Beat{.pid_space = pid_space_here(), .text = "step 7"});
  header.world_rank = rank;
  header.length = static_cast<std::uint32_t>(beat.size());
  const std::string bytes =
      std::string(reinterpret_cast<const char*>(&header), sizeof header) + beat;
  for (const Socket& socket : mesh.watch) {
    if (!socket.open()) continue;
    EXPECT_TRUE(send_fully(socket, std::as_bytes(std::span(bytes)), Deadline(kWatchdogMs)));
  }
}

TEST_P(StoppedRank, IsNamedAndEndsTheOthersWhenItStaysSo) {
  const int stopped = GetParam();
  World world(3);
  world.accused = stopped;
  std::latch ended(2);
  std::latch stands(1);
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    if (rank == stopped) {
      send_one_beat(rank, mesh);
      stands.count_down();
      return ended.wait();
    }
    stands.wait();
    Watch watch(world.options(rank, mesh), std::move(mesh.watch));
    const int driver = stopped == 0 ? 1 : 0;
    if (rank == driver) {
      world.seconds_until_heard({rank, 3 - stopped - rank}, 1'000);
    } else {
      world.heard.await(rank);
    }
    ended.count_down();
    ended.wait();
  });
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == stopped) continue;
    const auto losses = world.heard.of(rank);
    ASSERT_EQ(losses.size(), 1U) << "rank " << rank;
    EXPECT_EQ(losses[0].exit_code, 21);
    EXPECT_EQ(losses[0].world_rank, stopped);
    EXPECT_NE(losses[0].message.find(core::concat("fmengine: rank ", stopped, " (host ")),
              std::string::npos);
    EXPECT_NE(losses[0].message.find(") has been stopped (SIGSTOP or Ctrl-Z) for 10.0 s (it was "
                                     "in step 7)"),
              std::string::npos)
        << losses[0].message;
  }
  const int speaker = stopped == 0 ? 1 : 0;
  for (int rank = 0; rank < 3; ++rank) {
    const auto& said = world.notices[static_cast<std::size_t>(rank)];
    ASSERT_EQ(said.size(), rank == speaker ? 1U : 0U) << "rank " << rank;
    if (rank == speaker) {
      EXPECT_NE(said[0].find("is stopped (SIGSTOP or Ctrl-Z); the others wait for it"),
                std::string::npos);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(EachRank, StoppedRank, testing::Values(0, 1, 2));

// Silence alone accuses nobody of this host: under load a process may get no processor for long.
TEST(Watch, ASilentRankThatLivesIsNotAccused) {
  World world(2);
  std::latch ended(1);
  run_with_mesh(2, [&](int rank, LocalMesh mesh) {
    if (rank == 1) {
      send_one_beat(rank, mesh);
      return ended.wait();
    }
    Watch watch(world.options(rank, mesh), std::move(mesh.watch));
    EXPECT_EQ(world.seconds_until_heard({0}, 60), 60);
    ended.count_down();
  });
  EXPECT_TRUE(world.notices[0].empty());
}

// A cut between rank 0 and rank 1, seen from either side.
TEST(Watch, ARankBehindACutIsLostOnBothSides) {
  for (const int side : {0, 1}) {
    World world(2);
    world.accused = 1 - side;
    world.state = PeerState::kHostSilent;
    run_with_mesh(2, [&](int rank, LocalMesh mesh) {
      if (rank != side) {
        send_one_beat(rank, mesh);
        return world.heard.await(side);
      }
      Watch watch(world.options(rank, mesh), std::move(mesh.watch));
      world.seconds_until_heard({side}, 1'000);
    });
    const auto losses = world.heard.of(side);
    ASSERT_EQ(losses.size(), 1U);
    EXPECT_EQ(losses[0].exit_code, 20);
    EXPECT_EQ(losses[0].world_rank, 1 - side);
    EXPECT_NE(losses[0].message.find(") is cut off: silent for 8.0 s, and the host does not "),
              std::string::npos)
        << losses[0].message;
  }
}

// How many ticks each rank has begun: a rank that begins one has sent the beats of those before.
class Ticks {
 public:
  explicit Ticks(int ranks) : counts_(static_cast<std::size_t>(ranks)) {}
  void count_in(WatchOptions& options) {
    options.whereabouts = [this, rank = static_cast<std::size_t>(options.world_rank)] {
      const std::lock_guard lock(mutex_);
      ++counts_[rank];
      grew_.notify_all();
      return Whereabouts{};
    };
    options.still_limit_ms = [] { return 0; };
  }
  bool await_of_all(int count) {
    std::unique_lock lock(mutex_);
    return grew_.wait_for(lock, std::chrono::milliseconds(kWatchdogMs),
                          [&] { return std::ranges::min(counts_) >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable grew_;
  std::vector<int> counts_;
};

// The whole machine stood still for an hour, several times, and every rank goes on.
TEST(Watch, TimeInWhichNobodyWasAwakeAccusesNobody) {
  World world(2);
  world.accused = 1;  // as it looks while it has not gone on yet
  Ticks ticks(2);
  std::latch watched(2);
  std::latch ended(1);
  run_with_mesh(2, [&](int rank, LocalMesh mesh) {
    WatchOptions options = world.options(rank, mesh);
    ticks.count_in(options);
    Watch watch(std::move(options), std::move(mesh.watch));
    watched.arrive_and_wait();
    if (rank == 1) return ended.wait();
    for (int hour = 1; hour <= 50; ++hour) {
      world.clock.advance(3'600'000);
      EXPECT_TRUE(ticks.await_of_all(hour));
    }
    ended.count_down();
    EXPECT_TRUE(world.heard.of(0).empty());
  });
}

// Rank 1 is in an instruction that does not end; the others wait for it.
TEST(Watch, ARankThatDoesNotMoveIsNamedWithItsPlaceAndEndsAll) {
  World world(3);
  run_with_mesh(3, [&](int rank, LocalMesh mesh) {
    WatchOptions options = world.options(rank, mesh);
    options.whereabouts = [rank] {
      return rank == 1 ? Whereabouts{.moves = 9, .text = "step 3, B0.1, layers.1.mlp"}
                       : Whereabouts{.moves = 9, .waits_for_peers = true, .text = "all_reduce"};
    };
    options.still_limit_ms = [] { return 10'000; };
    Watch watch(std::move(options), std::move(mesh.watch));
    if (rank == 0) {
      world.seconds_until_heard({0, 1, 2}, 1'000);
    } else {
      world.heard.await(rank);
    }
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto losses = world.heard.of(rank);
    ASSERT_EQ(losses.size(), 1U) << "rank " << rank;
    EXPECT_EQ(losses[0].exit_code, 21);
    EXPECT_EQ(losses[0].world_rank, 1);
    EXPECT_NE(losses[0].message.find("s: step 3, B0.1, layers.1.mlp; ranks 0, 2 wait in "
                                     "all_reduce"),
              std::string::npos)
        << losses[0].message;
  }
}

// Five times slower than the others, which wait for it most of the time: it moves.
TEST(Watch, ASlowRankDoesNotHang) {
  World world(2);
  std::atomic<std::uint64_t> looks = 0;
  std::latch ended(1);
  run_with_mesh(2, [&](int rank, LocalMesh mesh) {
    WatchOptions options = world.options(rank, mesh);
    options.whereabouts = [&, rank] {
      return rank == 1 ? Whereabouts{.moves = ++looks / 5}
                       : Whereabouts{.moves = 1, .waits_for_peers = true};
    };
    options.still_limit_ms = [] { return 10'000; };
    Watch watch(std::move(options), std::move(mesh.watch));
    if (rank == 1) return ended.wait();
    const Deadline deadline(kWatchdogMs);
    while (looks < 60 && !deadline.passed()) world.seconds_until_heard({0}, 1);
    EXPECT_TRUE(world.heard.of(0).empty());
    ended.count_down();
  });
  EXPECT_GE(looks, 60U);
}

}  // namespace
}  // namespace fm::comm

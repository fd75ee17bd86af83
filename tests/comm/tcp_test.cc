// The tcp backend over real sockets, ranks as threads: rendezvous, unknown peers, collectives,
// losses.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "comm/meet/handshake.h"
#include "comm/meet/rendezvous.h"
#include "comm/wire/fabrics.h"
#include "comm/wire/tcp_connection.h"
#include "tests/comm/clock.h"
#include "tests/comm/collective_cases.h"
#include "tests/comm/local_mesh.h"

namespace fm::comm {
namespace {

using core::ExitCode;

class TcpWorld : public testing::TestWithParam<int> {};

TEST_P(TcpWorld, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  const auto run = [](const RankBody& body) { run_tcp_ranks(GetParam(), body); };
  EXPECT_EQ(ranks_through(throw_unless_cases_hold, run), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sizes, TcpWorld, testing::Values(2, 3, 5));

// 64 MB are far more than sockets hold: by the time the small message is there, the end of the
// large one, which was sent first, cannot be. Nobody reads before both are sent, or the large one
// might leave while it is posted.
TEST(TcpWorld, SmallMessagesOvertakeLargeOnes) {
  std::latch sent(1);
  run_tcp_ranks(2, [&sent](Communicator& world) {
    std::vector<float> large(16 << 20, world.rank() == 0 ? 1.0F : 0.0F);
    std::vector<float> small(4, world.rank() == 0 ? 2.0F : 0.0F);
    if (world.rank() == 0) {
      Pending first = world.send(span_of(large), 1);
      Pending second = world.send(span_of(small), 1);
      sent.count_down();
      second.finish();
      first.finish();
      return;
    }
    sent.wait();
    Pending first = world.receive(span_of(large), 0);
    world.receive(span_of(small), 0).finish();
    EXPECT_EQ(small.back(), 2.0F);
    EXPECT_EQ(large.back(), 0.0F);
    first.finish();
    EXPECT_EQ(std::ranges::count(large, 1.0F), std::ssize(large));
  });
}

// Nobody calls progress() here: what moves is moved by the thread in the background.
TEST(BackgroundFabric, LargeMessagesMoveWhileTheRankComputes) {
  run_with_mesh(2, [](int rank, LocalMesh mesh) {
    const auto fabric = make_background_fabric(make_tcp_fabric(
        {.world_rank = rank, .roster = mesh.roster, .verdict_ms = 50}, std::move(mesh.data)));
    std::vector<float> values(8 << 20, rank == 0 ? 3.0F : 0.0F);
    const Message message{
        .peer = 1 - rank, .dtype = core::DType::kF32, .bytes = core::Bytes(4 * std::ssize(values))};
    const auto transfer =
        rank == 0 ? fabric->send(values.data(), message) : fabric->receive(values.data(), message);
    const Deadline watchdog(kWatchdogMs);
    while (!transfer->done()) {
      ASSERT_FALSE(watchdog.passed());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(values.back(), 3.0F);
  });
}

TEST(BackgroundFabric, ThrowsWhatItsThreadMetAtTheNextCall) {
  run_with_mesh(2, [](int rank, LocalMesh mesh) {
    const auto fabric = make_background_fabric(make_tcp_fabric(
        {.world_rank = rank, .roster = mesh.roster, .verdict_ms = 50}, std::move(mesh.data)));
    std::vector<float> values(1 << 16);
    const Message message{.peer = 1 - rank,
                          .dtype = rank == 0 ? core::DType::kF32 : core::DType::kI32,
                          .bytes = core::Bytes(4 * std::ssize(values))};
    if (rank == 0) {
      const auto transfer = fabric->send(values.data(), message);
      while (!transfer->done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    const auto transfer = fabric->receive(values.data(), message);
    const auto call_again = [&] {
      for (const Deadline watchdog(kWatchdogMs); !watchdog.passed();) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        static_cast<void>(fabric->receive(values.data(), {.sequence = 7, .peer = 0}));
      }
    };
    EXPECT_THROW(call_again(), core::MachineError);
  });
}

core::MachineError failure_of(int ranks, const std::function<void(Communicator&)>& body,
                              int timeout_ms = kWatchdogMs) {
  try {
    run_tcp_ranks(ranks, body, timeout_ms);
  } catch (const core::MachineError& error) {
    return error;
  }
  throw std::runtime_error("no MachineError came");
}

TEST(TcpFailures, AWaitEndsAtItsLimitAndNamesThePeer) {
  std::latch ended(1);
  const auto body = [&](Communicator& world) {
    std::vector<float> values(4);
    if (world.rank() == 1) return ended.wait();
    try {
      world.receive(span_of(values), 1).finish();
    } catch (...) {
      ended.count_down();
      throw;
    }
  };
  const auto error = failure_of(2, body, 100);
  EXPECT_EQ(error.code(), ExitCode::kHang);
  const std::string text = error.what();
  EXPECT_NE(text.find("waited 100 ms for rank 1 (host "), std::string::npos) << text;
  EXPECT_NE(text.find("in send/receive"), std::string::npos) << text;
}

TEST(TcpFailures, AConnectionThatEndsNamesThePeer) {
  const auto body = [](Communicator& world) {
    std::vector<float> values(4);
    if (world.rank() == 1) return;  // its sockets close
    world.receive(span_of(values), 1).finish();
  };
  const auto error = failure_of(2, body);
  EXPECT_EQ(error.code(), ExitCode::kPeerLost);
  const std::string text = error.what();
  EXPECT_NE(text.find("rank 1 (host "), std::string::npos) << text;
}

TEST(TcpFailures, WhatArrivedBeforeTheEndIsStillDelivered) {
  std::latch ended(1);
  std::vector<float> received(3);
  run_with_mesh(2, [&](int rank, LocalMesh mesh) {
    const Message message{
        .peer = 1 - rank, .dtype = core::DType::kF32, .bytes = core::Bytes(4 * 3)};
    auto fabric =
        make_tcp_fabric({.world_rank = rank, .roster = mesh.roster}, std::move(mesh.data));
    if (rank == 0) {
      ended.wait();
      const auto transfer = fabric->receive(received.data(), message);
      while (!transfer->done()) fabric->progress(kWatchdogMs);
      return;
    }
    const std::vector<float> values{1, 2, 3};
    {
      const auto transfer = fabric->send(values.data(), message);
      while (!transfer->done()) fabric->progress(kWatchdogMs);
    }
    fabric.reset();  // its sockets close
    ended.count_down();
  });
  EXPECT_EQ(received, (std::vector<float>{1, 2, 3}));
}

TEST(TcpFailures, DifferentVerbsAreAMismatchThatNamesBoth) {
  const auto body = [](Communicator& world) {
    std::vector<float> values(2);
    if (world.rank() == 0) world.all_reduce(span_of(values)).finish();
    if (world.rank() == 1) world.broadcast(span_of(values), 1).finish();
  };
  const auto error = failure_of(2, body);
  EXPECT_EQ(error.code(), ExitCode::kMismatch);
  const std::string text = error.what();
  EXPECT_NE(text.find("all_reduce of 8 bytes here"), std::string::npos) << text;
  EXPECT_NE(text.find("broadcast of 8 bytes at rank 1 (host "), std::string::npos) << text;
}

TEST(TcpFailures, AnAbandonedReceiveIsNeverWritten) {
  const auto run = [](const RankBody& body) { run_tcp_ranks(2, body); };
  EXPECT_EQ(ranks_through(throw_if_abandoned_receive_is_written, run), 2);
}

// The address sanitizer watches the memory of the half-filled receive.
TEST(TcpFailures, AReceiveAbandonedHalfWayEndsTheConnection) {
  const auto body = [](Communicator& world) {
    constexpr std::size_t kMany = 4'000'000;
    if (world.rank() == 1) {
      std::vector<float> values(kMany, 1.0F);
      try {
        world.send(span_of(values), 0).finish();
      } catch (const core::MachineError&) {  // rank 0 went away in the middle
      }
      return;
    }
    std::vector<float> small(1);
    {
      std::vector<float> values(kMany);
      const Pending abandoned = world.receive(span_of(values), 1);
    }
    throw std::domain_error("gave up");
  };
  EXPECT_THROW(run_tcp_ranks(2, body), std::domain_error);
}

// One frame with a message of 8 bytes, whose header has some other bytes, and what may follow.
TEST(TcpFrames, DamagedOnesAreRefusedOrReadWithoutMoreMemoryThanTheySend) {
  std::mt19937 random(9);
  for (int i = 0; i < 3'000; ++i) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    const Socket peer(ends[0]);
    TcpConnection connection(Socket(ends[1]), 1, "rank 1");
    const FrameHeader header{.verb = 5, .sequence = 1, .bytes = 8, .piece = 8};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    for (auto change = random() % 4; change > 0; --change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.append(random() % 100, 'x');
    ASSERT_EQ(write(peer.fd(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    try {
      while (connection.read_some()) {
      }
    } catch (const core::MachineError& error) {
      EXPECT_TRUE(error.code() == ExitCode::kMismatch || error.code() == ExitCode::kOutOfMemory);
      EXPECT_TRUE(connection.lost());
    }
  }
}

TEST(Mesh, ALoopbackAddressOfAnotherHostIsRefusedWithAdvice) {
  JobRoster both{.token = random_token(), .ranks = {rank_of(0, 2), rank_of(1, 2)}};
  both.ranks[0].member = {.world_rank = 0, .host = "elsewhere", .pid = 12};
  try {
    build_mesh(1, both, listen_on("127.0.0.1"), Deadline(kWatchdogMs));
    FAIL() << "connected to itself";
  } catch (const core::MachineError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 (host elsewhere, pid 12) listens on"),
              std::string::npos)
        << error.what();
  }
}

TEST(Mesh, WhoDoesNotComeIsNamed) {
  const JobRoster both{.token = random_token(), .ranks = {rank_of(0, 2), rank_of(1, 2)}};
  try {
    build_mesh(0, both, listen_on("127.0.0.1"), Deadline(50));
    FAIL() << "a mesh of one";
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), ExitCode::kRendezvousFailed);
    EXPECT_NE(std::string(error.what()).find("waited 50 ms for rank 1 (host "), std::string::npos)
        << error.what();
  }
}

class AcceptAll : public testing::Test {
 protected:
  Endpoint endpoint() const { return {"127.0.0.1", port_of(listener_)}; }
  Socket unknown_peer(const std::vector<std::byte>& says) {
    Socket socket = connect_once(endpoint(), Deadline(kWatchdogMs));
    EXPECT_TRUE(send_fully(socket, says, Deadline(kWatchdogMs)));
    return socket;
  }
  // As the head of comm/meet/handshake.h says.
  static std::vector<std::byte> bytes_of(const Hello& hello) {
    std::string bytes = "fmengine";
    bytes.append(reinterpret_cast<const char*>(hello.token.data()), hello.token.size());
    bytes.append(reinterpret_cast<const char*>(&hello.world_rank), 4);
    bytes.append(reinterpret_cast<const char*>(&hello.purpose), 4);
    const auto all = std::as_bytes(std::span(bytes));
    return {all.begin(), all.end()};
  }
  static bool closed_by_peer(const Socket& socket) {
    std::byte byte{};
    const Deadline deadline(kWatchdogMs);
    return !receive_fully(socket, std::span(&byte, 1), deadline) && !deadline.passed();
  }

  Socket listener_ = listen_on("127.0.0.1");
  Token token_ = random_token();
};

// Time stands still, so that no connection is dropped because it sends nothing.
TEST_F(AcceptAll, OnlyTheTokenAndTheExpectedRankGetIn) {
  const ManualClock still;
  auto accepted = std::async(std::launch::async, [&] {
    return accept_all(listener_, token_, {{Purpose::kData, 1}}, Deadline(1, still));
  });
  const Socket silent = unknown_peer({});
  const Socket half = unknown_peer(std::vector<std::byte>(7, std::byte{0}));
  Token wrong = token_;
  wrong[15] ^= 1U;
  for (const std::vector<std::byte>& says :
       {std::vector<std::byte>(100, std::byte{'x'}),
        bytes_of({.token = wrong, .world_rank = 1, .purpose = Purpose::kData}),
        bytes_of({.token = token_, .world_rank = 7, .purpose = Purpose::kData}),
        bytes_of({.token = token_, .world_rank = 1, .purpose = Purpose::kWatch})}) {
    EXPECT_TRUE(closed_by_peer(unknown_peer(says)));
  }
  const Hello good{.token = token_, .world_rank = 1, .purpose = Purpose::kData};
  const Socket joined_rank = dial({endpoint()}, good, "the listener", Deadline(kWatchdogMs));
  const Arrivals arrivals = accepted.get();
  ASSERT_EQ(arrivals.sockets.size(), 1U);
  ASSERT_TRUE(arrivals.sockets.contains({Purpose::kData, 1}));
  EXPECT_EQ(arrivals.refused, 4);
  for (const Socket* const one : {&silent, &half}) EXPECT_TRUE(closed_by_peer(*one));
  const std::byte word{42};
  std::byte heard{};
  EXPECT_TRUE(send_fully(joined_rank, std::span(&word, 1), Deadline(kWatchdogMs)));
  EXPECT_TRUE(receive_fully(arrivals.sockets.at({Purpose::kData, 1}), std::span(&heard, 1),
                            Deadline(kWatchdogMs)));
  EXPECT_EQ(heard, word);
}

TEST_F(AcceptAll, WhoIsRefusedTriesAgainUntilTheLimit) {
  ManualClock clock;
  const ManualClock still;
  auto accepted = std::async(std::launch::async, [&] {
    return accept_all(listener_, token_, {{Purpose::kData, 1}}, Deadline(1, still));
  });
  auto intruder = std::async(std::launch::async, [&] {
    const Hello hello{.token = {}, .world_rank = 1, .purpose = Purpose::kData};
    EXPECT_THROW(dial({endpoint()}, hello, "the listener", Deadline(400, clock)),
                 core::MachineError);
  });
  EXPECT_TRUE(clock.await_looks(20));
  clock.advance(399);
  EXPECT_TRUE(clock.await_looks(8));
  EXPECT_EQ(intruder.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "too soon";
  clock.advance(1);
  intruder.get();
  const Hello good{.token = token_, .world_rank = 1, .purpose = Purpose::kData};
  const Socket joined_rank = dial({endpoint()}, good, "the listener", Deadline(kWatchdogMs));
  EXPECT_GE(accepted.get().refused, 2);
}

TEST_F(AcceptAll, TheMissingOnesAreWhoeverDidNotArrive) {
  const Arrivals arrivals = accept_all(listener_, token_, {{Purpose::kData, 1}}, Deadline(30));
  EXPECT_TRUE(arrivals.sockets.empty());
}

TEST(Token, SurvivesItsText) {
  const Token token = random_token();
  EXPECT_EQ(hex_of(token).size(), 32U);
  EXPECT_EQ(token_of(hex_of(token)), token);
  EXPECT_NE(token, random_token());
  EXPECT_THROW(token_of("12"), core::MachineError);
  EXPECT_THROW(token_of(std::string(31, 'a') + "g"), core::MachineError);
}

}  // namespace
}  // namespace fm::comm

// The tcp backend over real sockets, ranks as threads: meeting, strangers, collectives, losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "comm/meet/handshake.h"
#include "comm/meet/meeting.h"
#include "comm/wire/fabrics.h"
#include "tests/comm/collective_cases.h"
#include "tests/comm/local_mesh.h"

namespace fm::comm {
namespace {

using core::ExitCode;

class TcpWorld : public testing::TestWithParam<int> {};

TEST_P(TcpWorld, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  EXPECT_NO_THROW(run_tcp_ranks(GetParam(), run_collective_cases));
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
      second.wait();
      first.wait();
      return;
    }
    sent.wait();
    Pending first = world.receive(span_of(large), 0);
    world.receive(span_of(small), 0).wait();
    EXPECT_EQ(small.back(), 2.0F);
    EXPECT_EQ(large.back(), 0.0F);
    first.wait();
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
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!transfer->done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit);
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
      for (int look = 0; look < 20'000; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        static_cast<void>(fabric->receive(values.data(), {.sequence = 7, .peer = 0}));
      }
    };
    EXPECT_THROW(call_again(), core::MachineError);
  });
}

core::MachineError failure_of(int ranks, const std::function<void(Communicator&)>& body,
                              int timeout_ms) {
  try {
    run_tcp_ranks(ranks, body, timeout_ms);
  } catch (const core::MachineError& error) {
    return error;
  }
  throw std::runtime_error("no MachineError came");
}

TEST(TcpFailures, AWaitEndsAtItsLimitAndNamesThePeer) {
  const auto body = [](Communicator& world) {
    std::vector<float> values(4);
    if (world.rank() == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(400));
    world.receive(span_of(values), 1).wait();
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
    world.receive(span_of(values), 1).wait();
  };
  const auto error = failure_of(2, body, 5'000);
  EXPECT_EQ(error.code(), ExitCode::kPeerLost);
  const std::string text = error.what();
  EXPECT_NE(text.find("rank 1 (host "), std::string::npos) << text;
}

TEST(TcpFailures, WhatArrivedBeforeTheEndIsStillDelivered) {
  const auto body = [](Communicator& world) {
    std::vector<float> values{1, 2, 3};
    if (world.rank() == 1) return world.send(span_of(values), 0).wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::vector<float> received(3);
    world.receive(span_of(received), 1).wait();
    EXPECT_EQ(received, values);
  };
  EXPECT_NO_THROW(run_tcp_ranks(2, body));
}

TEST(TcpFailures, DifferentVerbsAreAMismatchThatNamesBoth) {
  const auto body = [](Communicator& world) {
    std::vector<float> values(2);
    if (world.rank() == 0) world.all_reduce(span_of(values)).wait();
    if (world.rank() == 1) world.broadcast(span_of(values), 1).wait();
  };
  const auto error = failure_of(2, body, 5'000);
  EXPECT_EQ(error.code(), ExitCode::kMismatch);
  const std::string text = error.what();
  EXPECT_NE(text.find("all_reduce of 8 bytes here"), std::string::npos) << text;
  EXPECT_NE(text.find("broadcast of 8 bytes at rank 1 (host "), std::string::npos) << text;
}

TEST(TcpFailures, AnAbandonedReceiveIsNeverWritten) {
  EXPECT_NO_THROW(run_tcp_ranks(2, run_abandoned_receive));
}

// The address sanitizer watches the memory of the half-filled receive.
TEST(TcpFailures, AReceiveAbandonedHalfWayEndsTheConnection) {
  const auto body = [](Communicator& world) {
    constexpr std::size_t kMany = 4'000'000;
    if (world.rank() == 1) {
      std::vector<float> values(kMany, 1.0F);
      try {
        world.send(span_of(values), 0).wait();
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

TEST(Mesh, ALoopbackAddressOfAnotherHostIsRefusedWithAdvice) {
  Attendance both{.token = random_token(), .ranks = {rank_of(0, 2), rank_of(1, 2)}};
  both.ranks[0].member = {.world_rank = 0, .host = "elsewhere", .pid = 12};
  try {
    build_mesh(1, both, listen_on("127.0.0.1"), Deadline(2'000));
    FAIL() << "connected to itself";
  } catch (const core::MachineError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 (host elsewhere, pid 12) listens on"),
              std::string::npos)
        << error.what();
  }
}

TEST(Mesh, WhoDoesNotComeIsNamed) {
  const Attendance both{.token = random_token(), .ranks = {rank_of(0, 2), rank_of(1, 2)}};
  try {
    build_mesh(0, both, listen_on("127.0.0.1"), Deadline(50));
    FAIL() << "a mesh of one";
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), ExitCode::kRendezvousFailed);
    EXPECT_NE(std::string(error.what()).find("waited 50 ms for rank 1 (host "), std::string::npos)
        << error.what();
  }
}

class Door : public testing::Test {
 protected:
  Endpoint endpoint() const { return {"127.0.0.1", port_of(listener_)}; }
  Socket stranger(const std::vector<std::byte>& says) {
    Socket socket = connect_once(endpoint(), Deadline(1'000));
    send_fully(socket, says, Deadline(1'000));
    return socket;
  }
  static bool closed_by_peer(const Socket& socket) {
    std::byte byte{};
    return !receive_fully(socket, std::span(&byte, 1), Deadline(300));
  }

  Socket listener_ = listen_on("127.0.0.1");
  Token token_ = random_token();
};

TEST_F(Door, OnlyTheTokenAndTheExpectedRankGetIn) {
  const Socket silent = stranger({});
  const Socket babbler = stranger(std::vector<std::byte>(100, std::byte{'x'}));
  const Socket half = stranger(std::vector<std::byte>(7, std::byte{0}));
  Token wrong = token_;
  wrong[15] ^= 1U;
  std::vector<std::jthread> intruders;
  const auto intrude = [&](Hello hello) {
    intruders.emplace_back([this, hello] {
      EXPECT_THROW(dial({endpoint()}, hello, "the door", Deadline(400)), core::MachineError);
    });
  };
  intrude({.token = wrong, .world_rank = 1, .purpose = Purpose::kData});
  intrude({.token = token_, .world_rank = 7, .purpose = Purpose::kData});
  intrude({.token = token_, .world_rank = 1, .purpose = Purpose::kWatch});
  Socket guest;
  std::jthread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    guest = dial({endpoint()}, {.token = token_, .world_rank = 1, .purpose = Purpose::kData},
                 "the door", Deadline(3'000));
  });
  Arrivals arrivals = accept_all(listener_, token_, {{Purpose::kData, 1}}, Deadline(5'000));
  late.join();
  EXPECT_EQ(arrivals.sockets.size(), 1U);
  EXPECT_TRUE(arrivals.sockets.contains({Purpose::kData, 1}));
  EXPECT_GE(arrivals.refused, 4);  // the babbler and three intruders, who try again
  listener_.close();
  EXPECT_TRUE(closed_by_peer(babbler));
  const std::byte word{42};
  std::byte heard{};
  EXPECT_TRUE(send_fully(guest, std::span(&word, 1), Deadline(1'000)));
  EXPECT_TRUE(receive_fully(arrivals.sockets.at({Purpose::kData, 1}), std::span(&heard, 1),
                            Deadline(1'000)));
  EXPECT_EQ(heard, word);
}

TEST_F(Door, TheMissingOnesAreWhoeverDidNotArrive) {
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

// The rendezvous over real sockets, ranks as threads: which connections are accepted, and which
// errors ranks get, and when.
#include "comm/meet/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <random>

#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/free_port.h"
#include "tests/comm/local_mesh.h"
#include "tests/comm/rendezvous_outcome.h"

namespace fm::comm {
namespace {

using core::ExitCode;

std::string hello_of(const PeerInfo& who) { return encode({FrameKind::kHello, 0, text_of(who)}); }

// The next frame, which must be complete.
Frame frame_from(const Socket& socket) {
  std::string bytes(kFrameHeader, '\0');
  EXPECT_TRUE(
      receive_fully(socket, std::as_writable_bytes(std::span(bytes)), Deadline(kWatchdogMs)));
  bytes.resize(kFrameHeader + announced_length(bytes));
  const auto text = std::as_writable_bytes(std::span(bytes)).subspan(kFrameHeader);
  EXPECT_TRUE(receive_fully(socket, text, Deadline(kWatchdogMs)));
  Frame frame;
  EXPECT_EQ(decode(bytes, kLongestFrameText, frame), FrameStatus::kComplete);
  return frame;
}

// Time stands still unless a test moves it: a rank that ends before did not end at its limit.
class RendezvousTest : public testing::Test {
 protected:
  static constexpr int kLimitMs = 300;
  static constexpr int kFarMs = 600'000;

  Deadline limit() const { return Deadline(kLimitMs, clock_); }  // from now on
  std::future<Outcome> serve(int world_size) {
    const auto say = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_ += line + "\n";
    };
    return std::async(std::launch::async, [this, world_size, say, limit = limit()] {
      const ServerOptions options{
          .own = rank_of(0, world_size), .address = "the address", .warn = say};
      return outcome_of([&] { return serve_rendezvous(options, listener_, limit); });
    });
  }
  std::future<Outcome> join(const PeerInfo& who) const {
    return std::async(std::launch::async, [this, who, limit = limit()] {
      const auto find = [this] { return std::vector{place_}; };
      return outcome_of([&] { return join_rendezvous(who, find, limit); });
    });
  }
  Outcome ended(std::future<Outcome>& rank) {
    if (rank.wait_for(std::chrono::milliseconds(kWatchdogMs)) != std::future_status::ready) {
      ADD_FAILURE() << "waits for its limit";
      clock_.advance(2 * kFarMs);
    }
    return rank.get();
  }
  Outcome ended(std::future<Outcome>&& rank) { return ended(rank); }
  // Moves time to one millisecond before the limit, at which no rank may end, and to the limit.
  void reach_the_limit(const std::future<Outcome>& rank) {
    clock_.advance(kLimitMs - 1);
    EXPECT_TRUE(clock_.await_looks(4));
    EXPECT_EQ(rank.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "too soon";
    clock_.advance(1);
  }
  // A rank that has been welcomed, and does nothing more.
  Socket joined_rank(const PeerInfo& who) const {
    Socket socket = unknown_peer_at(place_, hello_of(who));
    const Frame welcome = frame_from(socket);
    EXPECT_EQ(welcome.kind, FrameKind::kWelcome);
    EXPECT_TRUE(peer_info_of(welcome.text).has_value()) << welcome.text;
    return socket;
  }
  // The connection of a rank to the rank 0 that the test plays, after its hello.
  Socket accepted_rank() const {
    const Deadline deadline(kWatchdogMs);
    pollfd entry{.fd = listener_.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, deadline.left_ms()), 1);
    Socket line = accept_one(listener_);
    EXPECT_EQ(frame_from(line).kind, FrameKind::kHello);
    return line;
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  ManualClock clock_;
  const HeldPort port_;
  Socket listener_ = listen_at_one_of({{"127.0.0.1", port_.number()}}, "").socket;
  const Endpoint place_{"127.0.0.1", port_.number()};

 private:
  std::mutex mutex_;
  std::string said_;
};

void say_to(const Socket& line, const Frame& frame) {
  const std::string bytes = encode(frame);
  EXPECT_TRUE(send_fully(line, std::as_bytes(std::span(bytes)), Deadline(kWatchdogMs)));
}

TEST_F(RendezvousTest, EverybodyLearnsTheSameRosterAndToken) {
  auto second = join(rank_of(2, 3));
  auto first = join(rank_of(1, 3));
  const Outcome all[] = {ended(serve(3)), ended(first), ended(second)};
  for (const Outcome& one : all) {
    ASSERT_EQ(one.error, "");
    EXPECT_EQ(text_of(one.rendezvous.job_roster), text_of(all[0].rendezvous.job_roster));
    ASSERT_EQ(one.rendezvous.job_roster.ranks.size(), 3U);
    for (int rank = 0; rank < 3; ++rank) {
      const PeerInfo& who = one.rendezvous.job_roster.ranks[static_cast<std::size_t>(rank)];
      EXPECT_EQ(name_of(who.member), name_of(this_process(rank)));
    }
  }
  EXPECT_NE(all[0].rendezvous.job_roster.token, Token{});
  EXPECT_FALSE(all[0].rendezvous.connections[0].open());
  for (std::size_t rank = 1; rank < 3; ++rank) {
    EXPECT_TRUE(all[0].rendezvous.connections[rank].open());
    EXPECT_EQ(all[rank].rendezvous.connections.size(), 1U);
  }
}

TEST_F(RendezvousTest, TheMissingOnesAreNamedAtTheLimitToAllWhoWait) {
  auto rank0 = serve(4);
  const Socket rank2 = joined_rank(rank_of(2, 4));
  reach_the_limit(rank0);
  const Outcome outcome = ended(rank0);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, "rank 0 of 4 waited 300 ms at the address, no sign of rank 1, 3)"))
      << outcome.error;
  const Frame told = frame_from(rank2);
  EXPECT_EQ(told.kind, FrameKind::kRefusal);
  EXPECT_EQ(told.exit_code, static_cast<int>(ExitCode::kRendezvousFailed));
  EXPECT_EQ(told.text, outcome.error);
}

TEST_F(RendezvousTest, WhatRank0TellsARankThatWaitsIsItsErrorToo) {
  for (const ExitCode code : {ExitCode::kRendezvousFailed, ExitCode::kPeerLost}) {
    auto rank1 = join(rank_of(1, 3));
    const Socket line = accepted_rank();
    say_to(line, {FrameKind::kWelcome, 0, text_of(rank_of(0, 3, ""))});
    say_to(line, {FrameKind::kRefusal, static_cast<int>(code), "no sign of rank 2"});
    const Outcome outcome = ended(rank1);
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.error, "no sign of rank 2");
  }
}

// Rank 0, which knows who is missing, gets half a second more than it has.
TEST_F(RendezvousTest, ARank0ThatSaysNothingAtTheLimitIsNamed) {
  auto rank1 = join(rank_of(1, 3));
  const Socket line = accepted_rank();
  say_to(line, {FrameKind::kWelcome, 0, text_of(rank_of(0, 3, ""))});
  ASSERT_TRUE(clock_.await_looks(10));  // it has been welcomed, and looks at its last limit
  reach_the_limit(rank1);
  clock_.advance(499);
  EXPECT_TRUE(clock_.await_looks(4));
  EXPECT_EQ(rank1.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "too soon";
  clock_.advance(1);
  const Outcome outcome = ended(rank1);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, "(rank 1 waited 300 ms with " + name_of(this_process(0)) + ")"))
      << outcome.error;
}

TEST_F(RendezvousTest, TwoRanksOfOneNumberAreNamedAtOnce) {
  auto rank0 = serve(3);
  const Socket first = joined_rank(rank_of(1, 3));
  PeerInfo other = rank_of(1, 3);
  other.member.host = "elsewhere";
  for (const Outcome& outcome : {ended(join(other)), ended(rank0)}) {
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, name_of(this_process(1)) + " and rank 1 (host elsewhere, pid "))
        << outcome.error;
  }
  EXPECT_TRUE(has(all_from(first), "every rank must have a RANK of its own"));
}

TEST_F(RendezvousTest, ASecondRank0IsNamedAtOnce) {
  auto rank0 = serve(3);
  EXPECT_TRUE(has(ended(join(rank_of(0, 3))).error, "every rank must have a RANK of its own"));
  EXPECT_TRUE(has(ended(rank0).error, "every rank must have a RANK of its own"));
}

TEST_F(RendezvousTest, OtherSizesOfTheWorldAreNamedAtOnceWithBothValues) {
  auto rank0 = serve(2);
  for (const Outcome& outcome : {ended(join(rank_of(2, 3))), ended(rank0)}) {
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, "has WORLD_SIZE=2, rank 2 (host ")) << outcome.error;
    EXPECT_TRUE(has(outcome.error, "has WORLD_SIZE=3)")) << outcome.error;
  }
}

TEST_F(RendezvousTest, ARankOfAnotherJobIsRefusedAndThisJobGoesOn) {
  auto rank0 = serve(2);
  const Outcome foreign = ended(join(rank_of(1, 2, "--output_dir=/b")));
  EXPECT_EQ(foreign.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(foreign.error, "of another job answers, not that of --output_dir=/b"))
      << foreign.error;
  EXPECT_FALSE(has(foreign.error, "not that of job")) << "told an unknown peer: " << foreign.error;
  EXPECT_TRUE(has(ended(join(rank_of(1, 3, "\x1b[2J"))).error, "not that of ?[2J"));
  EXPECT_EQ(ended(join(rank_of(1, 2))).error, "");
  const Outcome outcome = ended(rank0);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.rendezvous.refused, 2);
  EXPECT_TRUE(has(said(), "(--output_dir=/b there, job here); still waiting for rank 1\n"))
      << said();
  EXPECT_FALSE(has(said(), "[2J")) << "said more than once";
}

TEST_F(RendezvousTest, AJoinedRankThatEndsIsNamedToAllAtOnce) {
  auto rank0 = serve(4);
  const Socket rank2 = joined_rank(rank_of(2, 4));
  std::optional<Socket> rank1 = joined_rank(rank_of(1, 4));
  rank1.reset();
  const Outcome outcome = ended(rank0);
  EXPECT_EQ(outcome.code, ExitCode::kPeerLost);
  EXPECT_TRUE(has(outcome.error,
                  name_of(this_process(1)) + " ended while the ranks met, no sign yet of rank 3)"))
      << outcome.error;
  const Frame told = frame_from(rank2);
  EXPECT_EQ(told.kind, FrameKind::kRefusal);
  EXPECT_EQ(told.exit_code, static_cast<int>(ExitCode::kPeerLost));
  EXPECT_EQ(told.text, outcome.error);
}

TEST_F(RendezvousTest, AnEndOfRank0IsNamedAtOnce) {
  auto rank1 = join(rank_of(1, 2));
  say_to(accepted_rank(), {FrameKind::kWelcome, 0, text_of(rank_of(0, 2, ""))});  // and ends
  const Outcome outcome = ended(rank1);
  EXPECT_EQ(outcome.code, ExitCode::kPeerLost);
  EXPECT_TRUE(has(outcome.error, name_of(this_process(0)) + " ended while the ranks met"))
      << outcome.error;
}

TEST_F(RendezvousTest, UnknownPeersLearnNothingAndEndNothing) {
  auto rank0 = serve(2);
  for (int i = 0; i < 2'000; ++i) unknown_peer_at(place_, "");
  std::vector<Socket> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(unknown_peer_at(place_, ""));
  std::string huge = hello_of(rank_of(1, 2));
  huge.replace(12, 4, "\xff\xff\xff\x7f");
  std::string endless = encode({FrameKind::kHello, 0, "1 2 " + std::string(8'000, 'a')});
  std::vector<Socket> loud;
  for (const std::string& says :
       {std::string(20'000, 'x'), std::string("GET /fmengine/0/token HTTP/1.1\r\n\r\n"), huge,
        endless, endless + endless, encode({FrameKind::kRoster, 0, "1"}), std::string(64, '\0')}) {
    loud.push_back(unknown_peer_at(place_, says));
  }
  for (const Socket& one : loud) EXPECT_EQ(all_from(one), "");
  EXPECT_EQ(ended(join(rank_of(1, 2))).error, "");
  const Outcome outcome = ended(rank0);
  EXPECT_EQ(outcome.error, "");
  EXPECT_GE(outcome.rendezvous.refused, 2'000);
  for (const Socket& one : silent) EXPECT_EQ(all_from(one), "");
}

// Hellos of another job, so that one that stays valid by accident is no rank of this job.
TEST_F(RendezvousTest, MutatedHellosEndNothing) {
  std::mt19937 random(7);
  auto rank0 = serve(2);
  const std::string good = hello_of(rank_of(1, 2, "another"));
  for (int i = 0; i < 500; ++i) {
    std::string bad = good.substr(0, random() % (good.size() + 1));
    for (auto change = random() % 4; change > 0 && !bad.empty(); --change) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    for (auto more = random() % 3 * 8; more > 0; --more) bad += static_cast<char>(random());
    unknown_peer_at(place_, bad);
  }
  EXPECT_EQ(ended(join(rank_of(1, 2))).error, "");
  EXPECT_EQ(ended(rank0).error, "");
}

// The limit for a hello is five seconds; that of the rendezvous is far away.
TEST_F(RendezvousTest, AnIncompleteHelloIsDroppedAfterFiveSeconds) {
  auto rank0 = std::async(std::launch::async, [this, far = Deadline(kFarMs, clock_)] {
    const ServerOptions options{.own = rank_of(0, 2), .address = "the address", .warn = {}};
    return outcome_of([&] { return serve_rendezvous(options, listener_, far); });
  });
  const std::string hello = hello_of(rank_of(1, 2));
  const Socket silent = unknown_peer_at(place_, "");
  const Socket half = unknown_peer_at(place_, hello.substr(0, hello.size() / 2));
  // Connections are read in order of arrival, so both earlier ones have been accepted by now.
  EXPECT_EQ(all_from(unknown_peer_at(place_, "GET / HTTP/1.1\r\n\r\n")), "");
  clock_.advance(4'999);
  ASSERT_TRUE(clock_.await_looks(4));
  std::byte byte{};
  for (const Socket* const one : {&silent, &half}) {
    EXPECT_LT(recv(one->fd(), &byte, 1, 0), 0) << "sent away too soon";
  }
  clock_.advance(1);
  for (const Socket* const one : {&silent, &half}) EXPECT_EQ(all_from(*one), "");
  EXPECT_EQ(ended(join(rank_of(1, 2))).error, "");
  EXPECT_EQ(ended(rank0).rendezvous.refused, 3);
}

TEST_F(RendezvousTest, WhatSaysNothingInsteadOfRank0IsDescribedAtTheLimit) {
  auto rank1 = join(rank_of(1, 2));
  const Socket line = accepted_rank();
  reach_the_limit(rank1);
  const Outcome outcome = ended(rank1);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  const std::string place = core::concat("127.0.0.1:", place_.port);
  EXPECT_TRUE(has(outcome.error, place + ": what listens there says nothing")) << outcome.error;
}

TEST_F(RendezvousTest, WhatSpeaksOtherwiseInsteadOfRank0IsAskedAgainAndDescribedAtTheLimit) {
  auto rank1 = join(rank_of(1, 2));
  const auto answer = [this] {
    const std::string_view says = "HTTP/1.1 400 Bad Request\r\n\r\n";
    EXPECT_TRUE(send_fully(accepted_rank(), std::as_bytes(std::span(says)), Deadline(kWatchdogMs)));
  };
  for (int attempt = 0; attempt < 3; ++attempt) answer();
  const Socket unanswered = accepted_rank();  // an attempt that the limit cuts short
  reach_the_limit(rank1);
  const Outcome outcome = ended(rank1);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  const std::string place = core::concat("127.0.0.1:", place_.port);
  EXPECT_TRUE(has(outcome.error, place + ": what listens there is not rank 0 of an fmengine job"))
      << outcome.error;
}

TEST_F(RendezvousTest, ARank0ThatNeverStartsTakesTheLimit) {
  listener_.close();
  auto rank1 = join(rank_of(1, 2));
  reach_the_limit(rank1);
  const Outcome outcome = ended(rank1);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, "nothing accepts connections there")) << outcome.error;
}

TEST_F(RendezvousTest, ARank0ThatComesLateIsFound) {
  const Endpoint place{"localhost", place_.port};
  listener_.close();
  const auto meet = [&](int rank) {
    return std::async(std::launch::async, [&, rank, limit = limit()] {
      return outcome_of([&] { return rendezvous_at(place, rank_of(rank, 2), {}, limit); });
    });
  };
  auto rank1 = meet(1);
  ASSERT_TRUE(clock_.await_looks(20));  // it has tried in vain
  EXPECT_EQ(ended(meet(0)).error, "");
  EXPECT_EQ(ended(rank1).error, "");
}

}  // namespace
}  // namespace fm::comm

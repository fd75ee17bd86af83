// The meeting over real sockets, ranks as threads: who is let in, who is told what, and when.
#include "comm/meet/meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "core/check.h"
#include "tests/comm/local_mesh.h"
#include "tests/comm/meeting_outcome.h"

namespace fm::comm {
namespace {

using core::ExitCode;

Socket stranger_at(const Endpoint& place, const std::string& says) {
  Socket socket = connect_once(place, Deadline(2'000));
  send_fully(socket, std::as_bytes(std::span(says)), Deadline(1'000));
  return socket;
}

std::string hello_of(const Introduction& who) {
  return encode({FrameKind::kHello, 0, text_of(who)});
}

// What somebody has said until he closed, or for 5 s.
std::string all_from(const Socket& socket) {
  std::string said;
  const Deadline deadline(5'000);
  for (std::byte byte{}; receive_fully(socket, std::span(&byte, 1), deadline);) {
    said += static_cast<char>(byte);
  }
  EXPECT_FALSE(deadline.passed()) << "the connection stays open";
  return said;
}

class Meetings : public testing::Test {
 protected:
  std::future<Outcome> host(int world_size, int limit_ms = 10'000) {
    const auto say = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_ += line + "\n";
    };
    return std::async(std::launch::async, [this, world_size, limit_ms, say] {
      const LobbyOptions options{.own = rank_of(0, world_size), .place = "the inn", .say = say};
      return outcome_of([&] { return host_meeting(options, listener_, Deadline(limit_ms)); });
    });
  }
  std::future<Outcome> join(const Introduction& who, int limit_ms = 10'000) const {
    return std::async(std::launch::async, [this, who, limit_ms] {
      const auto places = [this] { return std::vector{place_}; };
      return outcome_of([&] { return join_meeting(who, places, Deadline(limit_ms)); });
    });
  }
  // A rank that has been welcomed, and does nothing more.
  Socket guest(const Introduction& who) const {
    Socket socket = stranger_at(place_, hello_of(who));
    std::string welcome(kFrameHeader, '\0');
    EXPECT_TRUE(receive_fully(socket, std::as_writable_bytes(std::span(welcome)), Deadline(5'000)));
    welcome.resize(announced_length(welcome));
    EXPECT_TRUE(receive_fully(socket, std::as_writable_bytes(std::span(welcome)), Deadline(5'000)));
    EXPECT_TRUE(introduction_of(welcome).has_value()) << welcome;
    return socket;
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  Socket listener_ = listen_on("127.0.0.1");
  const Endpoint place_{"127.0.0.1", port_of(listener_)};

 private:
  std::mutex mutex_;
  std::string said_;
};

TEST_F(Meetings, EverybodyLearnsTheSameRosterAndToken) {
  auto second = join(rank_of(2, 3));
  auto first = join(rank_of(1, 3));
  const Outcome all[] = {host(3).get(), first.get(), second.get()};
  for (const Outcome& one : all) {
    ASSERT_EQ(one.error, "");
    EXPECT_EQ(text_of(one.meeting.attendance), text_of(all[0].meeting.attendance));
    ASSERT_EQ(one.meeting.attendance.ranks.size(), 3U);
    for (int rank = 0; rank < 3; ++rank) {
      const Introduction& who = one.meeting.attendance.ranks[static_cast<std::size_t>(rank)];
      EXPECT_EQ(name_of(who.member), name_of(this_process(rank)));
    }
  }
  EXPECT_NE(all[0].meeting.attendance.token, Token{});
  EXPECT_FALSE(all[0].meeting.lines[0].open());
  for (std::size_t rank = 1; rank < 3; ++rank) {
    EXPECT_TRUE(all[0].meeting.lines[rank].open());
    EXPECT_EQ(all[rank].meeting.lines.size(), 1U);
  }
}

TEST_F(Meetings, TheMissingOnesAreNamedToAllWhoWait) {
  auto rank0 = host(4, 300);
  auto rank2 = join(rank_of(2, 4), 300);
  for (auto* const rank : {&rank0, &rank2}) {
    const Outcome outcome = rank->get();
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, "rank 0 of 4 waited 300 ms at the inn, no sign of rank 1, 3)"))
        << outcome.error;
    EXPECT_LT(outcome.spent_ms, 1'300);
  }
}

TEST_F(Meetings, TwoRanksOfOneNumberAreNamedAtOnce) {
  auto rank0 = host(3);
  const Socket first = guest(rank_of(1, 3));
  Introduction other = rank_of(1, 3);
  other.member.host = "elsewhere";
  for (const Outcome& outcome : {join(other).get(), rank0.get()}) {
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, name_of(this_process(1)) + " and rank 1 (host elsewhere, pid "))
        << outcome.error;
    EXPECT_LT(outcome.spent_ms, 5'000);
  }
  EXPECT_TRUE(has(all_from(first), "every rank must have a RANK of its own"));
}

TEST_F(Meetings, ASecondRank0IsNamedAtOnce) {
  auto rank0 = host(3);
  EXPECT_TRUE(has(join(rank_of(0, 3)).get().error, "every rank must have a RANK of its own"));
  EXPECT_TRUE(has(rank0.get().error, "every rank must have a RANK of its own"));
}

TEST_F(Meetings, OtherSizesOfTheWorldAreNamedAtOnceWithBothValues) {
  auto rank0 = host(2);
  for (const Outcome& outcome : {join(rank_of(2, 3)).get(), rank0.get()}) {
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, "has WORLD_SIZE=2, rank 2 (host ")) << outcome.error;
    EXPECT_TRUE(has(outcome.error, "has WORLD_SIZE=3)")) << outcome.error;
    EXPECT_LT(outcome.spent_ms, 5'000);
  }
}

TEST_F(Meetings, ARankOfAnotherJobIsRefusedAndThisJobGoesOn) {
  auto rank0 = host(2);
  const Outcome foreign = join(rank_of(1, 2, "--output_dir=/b")).get();
  EXPECT_EQ(foreign.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(foreign.error, "of another job answers, not that of --output_dir=/b"))
      << foreign.error;
  EXPECT_FALSE(has(foreign.error, "not that of job")) << "told a stranger: " << foreign.error;
  EXPECT_TRUE(has(join(rank_of(1, 3, "\x1b[2J")).get().error, "not that of ?[2J"));
  EXPECT_EQ(join(rank_of(1, 2)).get().error, "");
  const Outcome outcome = rank0.get();
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.meeting.refused, 2);
  EXPECT_TRUE(has(said(), "(--output_dir=/b there, job here); still waiting for rank 1\n"))
      << said();
  EXPECT_FALSE(has(said(), "[2J")) << "said more than once";
}

TEST_F(Meetings, AGuestThatEndsIsNamedToAllAtOnce) {
  auto rank0 = host(4);
  auto rank2 = join(rank_of(2, 4));
  std::optional<Socket> rank1 = guest(rank_of(1, 4));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  rank1.reset();
  for (const Outcome& outcome : {rank0.get(), rank2.get()}) {
    EXPECT_EQ(outcome.code, ExitCode::kPeerLost);
    EXPECT_TRUE(has(outcome.error, name_of(this_process(1)) + " ended while the ranks met"))
        << outcome.error;
    EXPECT_LT(outcome.spent_ms, 5'000);
  }
}

TEST_F(Meetings, AnEndOfRank0IsNamedAtOnce) {
  auto rank1 = join(rank_of(1, 2));
  {
    const Deadline deadline(5'000);
    Socket line;
    while (!line.open() && !deadline.passed()) line = accept_one(listener_);
    const std::string welcome = encode({FrameKind::kWelcome, 0, text_of(rank_of(0, 2, ""))});
    send_fully(line, std::as_bytes(std::span(welcome)), deadline);
    std::byte hello{};
    receive_fully(line, std::span(&hello, 1), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const Outcome outcome = rank1.get();
  EXPECT_EQ(outcome.code, ExitCode::kPeerLost);
  EXPECT_TRUE(has(outcome.error, name_of(this_process(0)) + " ended while the ranks met"))
      << outcome.error;
  EXPECT_LT(outcome.spent_ms, 5'000);
}

TEST_F(Meetings, StrangersLearnNothingAndEndNothing) {
  auto rank0 = host(2);
  for (int i = 0; i < 2'000; ++i) ASSERT_TRUE(connect_once(place_, Deadline(2'000)).open());
  std::vector<Socket> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(stranger_at(place_, ""));
  std::string huge = hello_of(rank_of(1, 2));
  huge.replace(12, 4, "\xff\xff\xff\x7f");
  std::string endless = encode({FrameKind::kHello, 0, "1 2 " + std::string(8'000, 'a')});
  std::vector<Socket> loud;
  for (const std::string& says :
       {std::string(20'000, 'x'), std::string("GET /fmengine/0/token HTTP/1.1\r\n\r\n"), huge,
        endless, endless + endless, encode({FrameKind::kRoster, 0, "1"}), std::string(64, '\0')}) {
    loud.push_back(stranger_at(place_, says));
  }
  for (const Socket& one : loud) EXPECT_EQ(all_from(one), "");
  EXPECT_EQ(join(rank_of(1, 2)).get().error, "");
  const Outcome outcome = rank0.get();
  EXPECT_EQ(outcome.error, "");
  EXPECT_GE(outcome.meeting.refused, 2'000);
  EXPECT_LT(outcome.spent_ms, 9'000);
  for (const Socket& one : silent) EXPECT_EQ(all_from(one), "");
}

// Of another job, so that what is left whole by accident is no rank of this one.
TEST_F(Meetings, MutatedHellosEndNothing) {
  std::mt19937 random(7);
  auto rank0 = host(2);
  const std::string good = hello_of(rank_of(1, 2, "another"));
  for (int i = 0; i < 500; ++i) {
    std::string bad = good.substr(0, random() % (good.size() + 1));
    for (auto change = random() % 4; change > 0 && !bad.empty(); --change) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    for (auto more = random() % 3 * 8; more > 0; --more) bad += static_cast<char>(random());
    stranger_at(place_, bad);
  }
  EXPECT_EQ(join(rank_of(1, 2)).get().error, "");
  EXPECT_EQ(rank0.get().error, "");
}

TEST_F(Meetings, WhatListensInsteadOfRank0IsDescribedAtTheLimit) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "what listens there says nothing"},
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "is not rank 0 of an fmengine job"}};
  for (const auto& [says, expected] : cases) {
    auto rank1 = join(rank_of(1, 2), 400);
    std::vector<Socket> lines;
    while (rank1.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
      Socket line = accept_one(listener_);
      if (!line.open()) continue;
      send_fully(line, std::as_bytes(std::span(std::string_view(says))), Deadline(100));
      lines.push_back(std::move(line));
    }
    const Outcome outcome = rank1.get();
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, expected)) << outcome.error;
    EXPECT_TRUE(has(outcome.error, core::concat("127.0.0.1:", place_.port))) << outcome.error;
    EXPECT_GE(outcome.spent_ms, 390);
    EXPECT_LT(outcome.spent_ms, 1'400);
  }
}

TEST_F(Meetings, ARank0ThatNeverStartsTakesTheLimit) {
  listener_.close();
  const Outcome outcome = join(rank_of(1, 2), 300).get();
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(outcome.error, "nothing accepts connections there")) << outcome.error;
  EXPECT_GE(outcome.spent_ms, 290);
  EXPECT_LT(outcome.spent_ms, 1'300);
}

TEST_F(Meetings, ARank0ThatComesLateIsFound) {
  const Endpoint place{"localhost", place_.port};
  listener_.close();
  const auto meet = [&](int rank) {
    return outcome_of([&] { return meet_at(place, rank_of(rank, 2), {}, Deadline(5'000)); });
  };
  auto rank1 = std::async(std::launch::async, meet, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(meet(0).error, "");
  EXPECT_EQ(rank1.get().error, "");
}

}  // namespace
}  // namespace fm::comm

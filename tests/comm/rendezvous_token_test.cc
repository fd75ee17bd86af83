// Ranks with a job token: who comes in, who does not, and what either says.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <random>

#include "comm/meet/handshake.h"
#include "comm/meet/rendezvous.h"
#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/local_mesh.h"
#include "tests/comm/rendezvous_outcome.h"

namespace fm::comm {
namespace {

using core::ExitCode;

// What ranks print.
class Said {
 public:
  Warn warn() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      text_ += line + "\n";
      changed_.notify_all();
    };
  }
  bool await(const std::string& part) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kWatchdogMs),
                             [&] { return has(text_, part); });
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

// Time stands still unless a test moves it.
class RendezvousToken : public testing::Test {
 protected:
  static constexpr int kLimitMs = 300;

  std::future<Outcome> serve(const JobSecret* secret, int world_size = 2) {
    return std::async(std::launch::async, [this, secret, world_size, limit = limit()] {
      const ServerOptions options{.own = rank_of(0, world_size),
                                  .address = "the address",
                                  .warn = at_rank0_.warn(),
                                  .secret = secret};
      return outcome_of([&] { return serve_rendezvous(options, listener_, limit); });
    });
  }
  std::future<Outcome> join(const JobSecret* secret, Endpoint place, int rank = 1,
                            int world_size = 2) {
    return std::async(std::launch::async, [=, this, limit = limit()] {
      const auto find = [&] { return std::vector{place}; };
      const MeetOptions options{.names = {.warn = at_rank1_.warn()}, .secret = secret};
      return outcome_of(
          [&] { return join_rendezvous(rank_of(rank, world_size), find, limit, options); });
    });
  }
  std::future<Outcome> join(const JobSecret* secret) { return join(secret, place_); }
  Outcome ended(std::future<Outcome>& rank) {
    if (rank.wait_for(std::chrono::milliseconds(kWatchdogMs)) != std::future_status::ready) {
      ADD_FAILURE() << "waits for its limit";
      clock_.advance(1'000'000);
    }
    return rank.get();
  }
  Outcome ended(std::future<Outcome>&& rank) { return ended(rank); }
  Deadline limit() const { return Deadline(kLimitMs, clock_); }

  const JobSecret secret_{std::string(32, 'a'), "a test"};
  const JobSecret other_{std::string(32, 'b'), "a test"};
  ManualClock clock_;
  Socket listener_ = listen_on("127.0.0.1");
  const Endpoint place_{"127.0.0.1", port_of(listener_)};
  Said at_rank0_;
  Said at_rank1_;
};

TEST_F(RendezvousToken, RanksThatHaveItMeetAndBuildTheirMesh) {
  const auto rank = [this](int world_rank) {
    return std::async(std::launch::async, [this, world_rank] {
      const Deadline far(kWatchdogMs);
      const Socket listener = listen_on("127.0.0.1");
      PeerInfo own = rank_of(world_rank, 3);
      own.endpoint.port = port_of(listener);
      const ServerOptions options{
          .own = own, .address = "the address", .warn = {}, .secret = &secret_};
      const auto find = [this] { return std::vector{place_}; };
      Rendezvous all = world_rank == 0 ? serve_rendezvous(options, listener_, far)
                                       : join_rendezvous(own, find, far, {.secret = &secret_});
      return build_mesh(world_rank, all.job_roster, listener, far, &secret_);
    });
  };
  std::future<Mesh> ranks[] = {rank(0), rank(1), rank(2)};
  for (std::size_t own = 0; own < 3; ++own) {
    const Mesh mesh = ranks[own].get();
    EXPECT_EQ(mesh.refused, 0);
    for (std::size_t peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(mesh.data[peer].open(), peer != own);
    }
  }
}

TEST_F(RendezvousToken, ThatDiffersIsToldToBothAtOnceAndEndsNeither) {
  auto rank0 = serve(&secret_);
  auto wrong = join(&other_);
  EXPECT_TRUE(
      at_rank0_.await("fmengine: refused a connection without the job token of rank 0 at "
                      "the address; set the same FME_JOB_TOKEN on all ranks; still waiting "
                      "for rank 1\n"));
  EXPECT_TRUE(
      at_rank1_.await("what listens there has another job token; set the same "
                      "FME_JOB_TOKEN on all ranks; still trying\n"));
  EXPECT_EQ(ended(join(&secret_)).error, "");
  const Outcome served = ended(rank0);
  EXPECT_EQ(served.error, "");
  EXPECT_GE(served.rendezvous.refused, 1);
  listener_.close();
  EXPECT_TRUE(clock_.await_looks(10));
  clock_.advance(kLimitMs);
  const Outcome outcome = ended(wrong);
  EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
}

TEST_F(RendezvousToken, ThatDiffersIsNamedAtTheLimit) {
  auto rank0 = serve(&secret_);
  auto rank1 = join(&other_);
  ASSERT_TRUE(at_rank1_.await("still trying"));
  clock_.advance(kLimitMs);
  const Outcome outcomes[] = {ended(rank0), ended(rank1)};
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.code, ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(outcome.error, "the same FME_JOB_TOKEN")) << outcome.error;
  }
}

TEST_F(RendezvousToken, ThatARankLacksEndsThatRankAloneAndRank0SaysSo) {
  auto rank0 = serve(&secret_);
  const Outcome without = ended(join(nullptr));
  EXPECT_EQ(without.code, ExitCode::kRendezvousFailed);
  EXPECT_TRUE(has(without.error,
                  "rank 0 has a job token and this rank has none; set the same "
                  "FME_JOB_TOKEN on all ranks, or on none (127.0.0.1:"))
      << without.error;
  EXPECT_TRUE(at_rank0_.await("set the same FME_JOB_TOKEN on all ranks; still waiting for rank 1"));
  EXPECT_EQ(ended(join(&secret_)).error, "");
  EXPECT_EQ(ended(rank0).error, "");
}

TEST_F(RendezvousToken, ThatRank0LacksIsToldToBothAtOnce) {
  auto rank0 = serve(nullptr);
  auto rank1 = join(&secret_);
  EXPECT_TRUE(
      at_rank0_.await("fmengine: refused a rank with a job token, as rank 0 has none; set "
                      "the same FME_JOB_TOKEN on all ranks, or on none"));
  EXPECT_TRUE(
      at_rank1_.await("what listens there has no job token, but this rank has one; set "
                      "FME_JOB_TOKEN on all ranks, or on none; still trying"));
  EXPECT_EQ(ended(join(nullptr)).error, "");
  EXPECT_EQ(ended(rank0).error, "");
  listener_.close();
  EXPECT_TRUE(clock_.await_looks(10));
  clock_.advance(kLimitMs);
  EXPECT_EQ(ended(rank1).code, ExitCode::kRendezvousFailed);
}

// Passes on what the two ends of a connection say, and keeps what came from the first.
std::string relayed(const Socket& from, const Socket& to) {
  std::string said;
  std::array<pollfd, 2> ends{pollfd{.fd = from.fd(), .events = POLLIN, .revents = 0},
                             pollfd{.fd = to.fd(), .events = POLLIN, .revents = 0}};
  while (poll(ends.data(), ends.size(), kWatchdogMs) > 0) {
    std::array<char, 4'096> chunk{};
    const std::size_t talks = ends[0].revents != 0 ? 0 : 1;
    const ssize_t got = recv(ends[talks].fd, chunk.data(), chunk.size(), 0);
    if (got <= 0) break;
    const std::string_view text(chunk.data(), static_cast<std::size_t>(got));
    if (talks == 0) said += text;
    send_fully(talks == 0 ? to : from, std::as_bytes(std::span(text)), Deadline(kWatchdogMs));
  }
  return said;
}

TEST_F(RendezvousToken, ARecordingOfARankIsWorthNothing) {
  const Socket middle = listen_on("127.0.0.1");
  auto rank0 = serve(&secret_);
  auto rank1 = join(&secret_, {"127.0.0.1", port_of(middle)});
  auto recorded = std::async(std::launch::async, [&] {
    Socket from;
    while (!from.open()) from = accept_one(middle);
    return relayed(from, connect_once(place_, Deadline(kWatchdogMs)));
  });
  EXPECT_EQ(ended(rank1).error, "");
  EXPECT_EQ(ended(rank0).error, "");
  rank1 = {};
  const std::string recording = recorded.get();
  ASSERT_GT(recording.size(), kProofBytes) << "the proof and the hello";

  auto again = serve(&secret_);
  std::vector<Socket> replays;
  for (int i = 0; i < 100; ++i) replays.push_back(unknown_peer_at(place_, recording));
  for (const Socket& one : replays) {
    EXPECT_EQ(all_from(one).size(), 40U) << "no more than a challenge is said to it";
  }
  EXPECT_EQ(ended(join(&secret_)).error, "");
  const Outcome outcome = ended(again);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.rendezvous.refused, 100);
}

// More than are kept open at once, and a rank between them.
TEST_F(RendezvousToken, StrangersLearnAChallengeAndEndNothing) {
  std::mt19937 random(3);
  auto rank0 = serve(&secret_, 3);
  const PeerInfo who = rank_of(2, 3);
  const std::string hello = encode({FrameKind::kHello, 0, text_of(who)});
  std::vector<Socket> strangers;
  for (int i = 0; i < 100; ++i) {
    std::string garbage(1 + random() % 300, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    for (const std::string& says :
         {std::string(), std::string("fmetrust"), "fmetrust" + std::string(32, 'n'),
          "fmetrust" + std::string(64, 'm'), hello, garbage}) {
      strangers.push_back(unknown_peer_at(place_, says));
    }
  }
  auto rank1 = join(&secret_, place_, 1, 3);
  auto rank2 = join(&secret_, place_, 2, 3);
  for (const Outcome& outcome : {ended(rank1), ended(rank2), ended(rank0)}) {
    EXPECT_EQ(outcome.error, "");
  }
  for (const Socket& one : strangers) EXPECT_LE(all_from(one).size(), 40U);
}

// The limit of a proof and a hello is five seconds; that of the rendezvous is far away.
TEST_F(RendezvousToken, HalfAHandshakeIsDroppedAfterFiveSeconds) {
  auto rank0 = std::async(std::launch::async, [this, far = Deadline(600'000, clock_)] {
    const ServerOptions options{
        .own = rank_of(0, 2), .address = "the address", .warn = {}, .secret = &secret_};
    return outcome_of([&] { return serve_rendezvous(options, listener_, far); });
  });
  std::vector<Socket> halves;
  for (const char* const says : {"", "fme", "fmetrust", "fmetrust and a part of a nonce"}) {
    halves.push_back(unknown_peer_at(place_, says));
    std::byte challenge{};  // it was accepted
    EXPECT_TRUE(receive_fully(halves.back(), std::span(&challenge, 1), Deadline(kWatchdogMs)));
  }
  clock_.advance(4'999);
  ASSERT_TRUE(clock_.await_looks(20));
  for (const Socket& one : halves) {
    std::array<std::byte, 64> rest{};
    while (recv(one.fd(), rest.data(), rest.size(), 0) > 0) {
    }
    EXPECT_EQ(errno, EAGAIN) << "sent away too soon";
  }
  clock_.advance(1);
  for (const Socket& one : halves) EXPECT_EQ(all_from(one), "");
  EXPECT_EQ(ended(join(&secret_)).error, "");
  EXPECT_EQ(ended(rank0).rendezvous.refused, 4);
}

// The mesh and the watch under mpirun.
class TokenOfConnections : public RendezvousToken {
 protected:
  std::future<Arrivals> accept() {
    return std::async(std::launch::async, [this] {
      return accept_all(listener_, token_, {{Purpose::kData, 1}}, limit(), &secret_);
    });
  }
  const Token token_ = random_token();
  const Hello hello_{.token = token_, .world_rank = 1, .purpose = Purpose::kData};
};

TEST_F(TokenOfConnections, IsAskedForBeforeTheTokenOfTheMesh) {
  auto arrivals = accept();
  ManualClock clock;
  for (const JobSecret* const secret : {&other_, static_cast<const JobSecret*>(nullptr)}) {
    auto dialed = std::async(std::launch::async, [&, secret] {
      return dial({place_}, hello_, "the listener", Deadline(400, clock), secret);
    });
    EXPECT_TRUE(clock.await_looks(10));
    clock.advance(400);
    EXPECT_THROW(dialed.get(), core::MachineError);
  }
  const Socket rank = dial({place_}, hello_, "the listener", Deadline(kWatchdogMs), &secret_);
  EXPECT_TRUE(rank.open());
  const Arrivals all = arrivals.get();
  EXPECT_TRUE(all.sockets.contains({Purpose::kData, 1}));
  EXPECT_GE(all.refused, 2);
}

}  // namespace
}  // namespace fm::comm

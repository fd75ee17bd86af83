// Solo and thread worlds: the collective cases, limits, disagreements and failures.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "comm/meet/world.h"
#include "tests/comm/clock.h"
#include "tests/comm/collective_cases.h"

namespace fm::comm {
namespace {

using core::ExitCode;
using namespace std::string_literals;

class ThreadWorld : public testing::TestWithParam<int> {};

// What runs a body on so many ranks.
auto run_of(int ranks, Between between) {
  return [=](const RankBody& body) { run_ranks(ranks, body, kThreadsMs, between); };
}

TEST_P(ThreadWorld, EveryVerbMovesWhatItSaysAndSumsByTheTree) {
  EXPECT_EQ(ranks_through(throw_unless_cases_hold, run_of(GetParam(), Between::kMessages)),
            GetParam());
}
TEST_P(ThreadWorld, SharedMemoryMovesTheSame) {
  EXPECT_EQ(ranks_through(throw_unless_cases_hold, run_of(GetParam(), Between::kSharedMemory)),
            GetParam());
}
TEST_P(ThreadWorld, ATracedOneMovesTheSame) {
  const auto body = [](Communicator& world) {
    core::TraceRecorder recorder(1U << 16);
    const core::Recording recording(&recorder);
    throw_unless_cases_hold(*traced(world));
    EXPECT_GT(recorder.events().size(), 0U);
  };
  EXPECT_EQ(ranks_through(body, run_of(GetParam(), Between::kSharedMemory)), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadWorld, testing::Values(1, 2, 3, 4, 5, 8));

// Twenty collectives of two sizes and twelve messages are under way at once.
void post_more_than_the_rings_hold(Communicator& world) {
  const int size = world.size();
  std::vector<std::vector<float>> sums;
  std::vector<std::vector<float>> sent;
  std::vector<std::vector<float>> received(12, std::vector<float>(700));
  std::vector<Pending> pending;
  for (int i = 0; i < 20; ++i)
    sums.emplace_back(i % 2 == 0 ? 3 : 5'000, static_cast<float>(world.rank() + i));
  for (int i = 0; i < 12; ++i) sent.emplace_back(700, static_cast<float>(100 * world.rank() + i));
  for (auto& values : sums) pending.push_back(world.all_reduce(span_of(values)));
  for (std::size_t i = 0; i < 12 && size > 1; ++i) {
    pending.push_back(world.send(span_of(sent[i]), (world.rank() + 1) % size));
    pending.push_back(world.receive(span_of(received[i]), (world.rank() + size - 1) % size));
  }
  if (world.rank() % 2 == 0) std::ranges::reverse(pending);
  for (Pending& one : pending) one.finish();
  for (int i = 0; i < 20; ++i) {
    const std::vector<float>& values = sums[static_cast<std::size_t>(i)];
    const std::vector<float> wanted(values.size(),
                                    static_cast<float>(size * (size - 1) / 2 + size * i));
    EXPECT_EQ(values, wanted);
  }
  for (int i = 0; i < 12 && size > 1; ++i) {
    const std::vector<float> wanted(
        700, static_cast<float>(100 * ((world.rank() + size - 1) % size) + i));
    EXPECT_EQ(received[static_cast<std::size_t>(i)], wanted);
  }
}

TEST_P(ThreadWorld, MoreMayBeUnderWayThanTheRingsHold) {
  for (const Between between : {Between::kMessages, Between::kSharedMemory}) {
    EXPECT_EQ(ranks_through(post_more_than_the_rings_hold, run_of(GetParam(), between)),
              GetParam());
  }
}

// "all_reduce 24 of 2;", collectives only.
std::string collectives_of(const core::TraceRecorder& recorder) {
  std::string out;
  for (const core::TraceEvent& event : recorder.events()) {
    if (event.form->kind != core::TraceKind::kCollective) continue;
    out += core::concat(event.form->name, ' ', event.values[0], " of ", event.values[1], ';');
  }
  return out;
}

// The whole buffer's bytes, of groups that were split off too; one event per verb, whether posting
// did all the work (a group of one) or the wait did.
TEST(Traced, EveryVerbIsOneEventWithTheBytesOfItsWholeBuffer) {
  run_ranks(2, [](Communicator& inner) {
    const auto world = traced(inner);
    std::vector<double> values(6);
    const Span three{values.data(), core::Elements(3), core::DType::kF64};
    const Span six{values.data(), core::Elements(6), core::DType::kF64};
    const int own[] = {world->rank()};
    const auto alone = world->split(own);
    core::TraceRecorder recorder(64);
    {
      const core::Recording recording(&recorder);
      world->all_reduce(three).finish();
      world->reduce_scatter(six, three).finish();
      world
          ->all_gather(Span{&values[static_cast<std::size_t>(3 * world->rank())], core::Elements(3),
                            core::DType::kF64},
                       six)
          .finish();
      alone->all_reduce(three).finish();
      world->barrier().finish();
    }
    world->barrier().finish();
    EXPECT_EQ(collectives_of(recorder),
              "all_reduce 24 of 2;reduce_scatter 48 of 2;all_gather 48 of 2;all_reduce 24 of 1;"
              "barrier 0 of 2;");
  });
}

// Without a recorder, of groups that were split off too; the time holds posting and wait.
TEST(Traced, CountsVerbsByBytesAndGroupWithTheirTime) {
  run_ranks(2, [](Communicator& inner) {
    VerbCounts counts;
    const auto world = traced(inner, &counts);
    std::vector<double> values(6);
    const Span three{values.data(), core::Elements(3), core::DType::kF64};
    const int own[] = {world->rank()};
    const auto alone = world->split(own);
    const std::int64_t before = core::trace_now();
    for (int i = 0; i < 3; ++i) world->all_reduce(three).finish();
    alone->all_reduce(three).finish();
    world->barrier().finish();
    const std::int64_t whole = core::trace_now() - before;
    std::string out;
    std::int64_t spent = 0;
    for (const auto& [key, row] : counts.rows()) {
      out += core::concat(key.verb, ' ', key.bytes, " of ", key.ranks, ": ", row.count, ';');
      EXPECT_GT(row.ns, 0) << key.verb;
      spent += row.ns;
    }
    EXPECT_EQ(out, "all_reduce 24 of 1: 1;all_reduce 24 of 2: 3;barrier 0 of 2: 1;");
    EXPECT_LE(spent, whole);
  });
}

// By rank, the host.
class HostsWorld : public testing::TestWithParam<std::vector<int>> {};

TEST_P(HostsWorld, MovesTheSameAndSumsByTheOneTree) {
  const auto run = [](const RankBody& body) { run_ranks_on_hosts(GetParam(), body); };
  EXPECT_EQ(ranks_through(throw_unless_cases_hold, run), std::ssize(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(Layouts, HostsWorld,
                         testing::Values(std::vector{0, 0, 1, 1}, std::vector{0, 0, 1},
                                         std::vector{0, 1, 1}, std::vector{0, 1, 1, 2},
                                         std::vector{0, 1, 2}, std::vector{0, 1, 0, 1},
                                         std::vector{0, 0, 0, 1, 1, 1},
                                         std::vector{0, 0, 0, 0, 0, 1, 1},
                                         std::vector{1, 0, 0, 0, 2, 2, 1, 1}),
                         [](const auto& layout) {
                           std::string name = "Ranks";
                           for (const int host : layout.param)
                             name += static_cast<char>('A' + host);
                           return name;
                         });

TEST(HostsWorld, SaysOnWhichLevelsItMoves) {
  const auto said = [](const std::vector<int>& host_of, const std::vector<int>& members) {
    std::string world_says;
    std::string group_says;
    run_ranks_on_hosts(host_of, [&](Communicator& world) {
      if (world.rank() == 0) world_says = world.describe();
      if (std::ranges::count(members, world.rank()) == 0) return;
      const auto group = world.split(members);
      if (group->rank() == 0) group_says = group->describe();
    });
    return std::pair(world_says, group_says);
  };
  const std::string both = "shared memory on each of 2 hosts beside thread, 4 ranks";
  const std::vector<int> two_by_two{0, 0, 1, 1};
  EXPECT_EQ(said(two_by_two, {2, 3}), std::pair(both, "shared memory beside thread, 2 ranks"s));
  EXPECT_EQ(said(two_by_two, {0, 2}), std::pair(both, "thread, 2 ranks"s));
  EXPECT_EQ(said(two_by_two, {3, 1, 2}),
            std::pair(both, "shared memory on each of 2 hosts beside thread, 3 ranks"s));
  EXPECT_EQ(said({0, 1}, {0}).first,
            "thread, 2 ranks, no shared memory: every rank has a host to itself");
}

TEST(HostsWorld, RanksOfOneHostMayShareMemory) {
  run_ranks_on_hosts({0, 0, 1, 1}, [](Communicator& world) {
    EXPECT_TRUE(world.may_share(std::vector{0, 1}));
    EXPECT_TRUE(world.may_share(std::vector{3, 2}));
    EXPECT_FALSE(world.may_share(std::vector{1, 2}));
    EXPECT_TRUE(traced(world)->may_share(std::vector{0, 1}));
    EXPECT_EQ(world.common_memory(), nullptr);
    const int first = world.rank() / 2 * 2;
    EXPECT_NE(world.split(std::vector{first, first + 1})->common_memory(), nullptr);
  });
  run_ranks(2, [](Communicator& world) { EXPECT_FALSE(world.may_share(std::vector{0, 1})); });
}

TEST(Solo, EveryVerbMovesWhatItSays) {
  const auto solo = make_solo();
  throw_unless_cases_hold(*solo);
  EXPECT_EQ(solo->size(), 1);
  float value = 0;
  EXPECT_THROW(solo->send({&value, core::Elements(1), core::DType::kF32}, 0), core::BugError);
}

// Runs and returns the error that came out, so that a test can read code and text.
core::MachineError failure_of(int size, const std::function<void(Communicator&)>& body,
                              Between between = Between::kMessages, int timeout_ms = kThreadsMs,
                              const Clock& clock = kSystemClock) {
  try {
    run_ranks(size, body, timeout_ms, between, clock);
  } catch (const core::MachineError& error) {
    return error;
  }
  throw std::runtime_error("no MachineError came");
}

// Time stands still until the others have posted: whom they name is no matter of who is slow.
TEST(ThreadWorldLimits, AWaitEndsAtItsLimitAndNamesThePeerAndTheVerb) {
  ManualClock clock;
  std::latch posted(2);
  std::atomic<int> ended = 0;
  const auto body = [&](Communicator& world) {
    if (world.rank() == 2) {  // never comes to the reduction
      posted.wait();
      EXPECT_TRUE(clock.await_looks(8));  // both wait
      clock.advance(149);
      EXPECT_TRUE(clock.await_looks(8));
      EXPECT_EQ(ended, 0) << "too soon";
      return clock.advance(1);
    }
    std::vector<float> values(6);
    std::vector<float> own(2);
    Pending sum = world.reduce_scatter(span_of(values), span_of(own));
    posted.count_down();
    try {
      sum.finish();
    } catch (const core::MachineError&) {
      ++ended;
      throw;
    }
  };
  const auto error = failure_of(3, body, Between::kMessages, 150, clock);
  EXPECT_EQ(error.code(), ExitCode::kHang);
  const std::string text = error.what();
  EXPECT_NE(text.find("waited 150 ms for rank 2"), std::string::npos) << text;
  EXPECT_NE(text.find("in reduce_scatter"), std::string::npos) << text;
}

TEST(ThreadWorldLimits, DifferentSizesAreAMismatchThatNamesBoth) {
  const auto error = failure_of(2, [](Communicator& world) {
    std::vector<float> values(world.rank() == 0 ? 3 : 4);
    world.all_reduce(span_of(values)).finish();
  });
  EXPECT_EQ(error.code(), ExitCode::kMismatch);
  const std::string text = error.what();
  EXPECT_NE(text.find("12 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("16 bytes"), std::string::npos) << text;
}

TEST(ThreadWorldLimits, DifferentVerbsAreAMismatchThatNamesBoth) {
  const auto error = failure_of(2, [](Communicator& world) {
    std::vector<float> values(2);
    if (world.rank() == 0) world.all_reduce(span_of(values)).finish();
    if (world.rank() == 1) world.broadcast(span_of(values), 1).finish();
  });
  EXPECT_EQ(error.code(), ExitCode::kMismatch);
  const std::string text = error.what();
  EXPECT_NE(text.find("all_reduce"), std::string::npos) << text;
  EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
}

TEST(ThreadWorldLimits, InSharedMemoryAnotherRootIsAMismatchThatNamesBoth) {
  const auto roots = [](Communicator& world) {
    std::vector<float> values(2'000);
    world.broadcast(span_of(values), world.rank() == 2 ? 1 : 0).finish();
  };
  const auto error = failure_of(3, roots, Between::kSharedMemory);
  EXPECT_EQ(error.code(), ExitCode::kMismatch);
  EXPECT_NE(std::string(error.what()).find("with root 1 "), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("with root 0 "), std::string::npos) << error.what();
}

TEST(ThreadWorldLimits, AnotherTypeIsAMismatchThatNamesBoth) {
  std::vector<double> reals(1'000);
  std::vector<std::int64_t> integers(1'000);
  const auto values = [&](bool real) {
    const core::Elements count(1'000);
    return real ? Span{reals.data(), count, core::DType::kF64}
                : Span{integers.data(), count, core::DType::kI64};
  };
  const auto sum = [&](Communicator& world) {
    world.all_reduce(values(world.rank() == 1)).finish();
  };
  const auto message = [&](Communicator& world) {
    if (world.rank() == 0) world.send(values(false), 1).finish();
    if (world.rank() == 1) world.receive(values(true), 0).finish();
  };
  for (const Between between : {Between::kMessages, Between::kSharedMemory}) {
    for (const auto& error : {failure_of(2, sum, between), failure_of(2, message, between)}) {
      EXPECT_EQ(error.code(), ExitCode::kMismatch);
      const std::string text = error.what();
      EXPECT_NE(text.find(" bytes of fp64 "), std::string::npos) << text;
      EXPECT_NE(text.find(" bytes of int64 "), std::string::npos) << text;
    }
  }
}

TEST(ThreadWorldLimits, ACollectiveThatFindsNoRoomNamesWhomTheOldestWaitsFor) {
  ManualClock clock;
  std::latch has_met(1);
  const auto body = [&](Communicator& world) {
    if (world.rank() == 1) {
      has_met.wait();
      EXPECT_TRUE(clock.await_looks(4));  // rank 0 waits
      return clock.advance(150);
    }
    has_met.count_down();
    std::vector<std::vector<float>> values(9, std::vector<float>(2'000));
    std::vector<Pending> pending;
    for (auto& one : values) pending.push_back(world.all_reduce(span_of(one)));
    pending.back().finish();
  };
  const auto error = failure_of(2, body, Between::kSharedMemory, 150, clock);
  EXPECT_EQ(error.code(), ExitCode::kHang);
  EXPECT_NE(std::string(error.what()).find("for rank 1"), std::string::npos) << error.what();
}

TEST(ThreadWorldLimits, TheFirstFailureIsRethrownAndTheOthersStopWaiting) {
  std::atomic<int> stopped = 0;
  const auto body = [&](Communicator& world) {
    if (world.rank() == 1) throw std::domain_error("rank 1 had enough");
    try {
      world.barrier().finish();
    } catch (const core::MachineError& error) {
      EXPECT_EQ(error.code(), ExitCode::kPeerLost);
      ++stopped;
      throw;
    }
  };
  EXPECT_THROW(run_ranks(4, body), std::domain_error);
  EXPECT_EQ(stopped, 3);
}

TEST(ThreadWorldLimits, AnAbandonedReceiveIsNeverWritten) {
  EXPECT_EQ(ranks_through(throw_if_abandoned_receive_is_written, run_of(2, Between::kMessages)), 2);
}

TEST(Split, ANonMemberIsADefect) {
  const auto body = [](Communicator& world) {
    const std::vector<int> others{1 - world.rank()};
    world.split(others);
  };
  EXPECT_THROW(run_ranks(2, body), core::BugError);
}

TEST(Sums, ADtypeWithoutSumIsADefect) {
  const auto body = [](Communicator& world) {
    std::vector<std::uint8_t> values(4);
    world.all_reduce({values.data(), core::Elements(4), core::DType::kU8}).finish();
  };
  EXPECT_THROW(run_ranks(2, body), core::BugError);
}

}  // namespace
}  // namespace fm::comm

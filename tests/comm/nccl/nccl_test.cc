// Ranks with cards that talk by NCCL, on a machine that has neither.
#include "comm/nccl/nccl.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/meet/world.h"
#include "core/check.h"
#include "core/philox.h"
#include "kernels/pointwise/sums.h"
#include "tests/comm/clock.h"
#include "tests/comm/collective_cases.h"
#include "tests/comm/nccl/nccl_rank.h"
#include "tests/comm/through_device.h"
#include "tests/device/gate.h"

namespace fm::comm {
namespace {

using core::DType;
using core::Elements;
using core::SumOrder;

constexpr int kLimitMs = 500;

std::shared_ptr<const NcclLibrary> open_fake_nccl() { return open_nccl(fake_nccl().find); }

NcclPlace place_of(FakeCard& card, int rank) {
  return {.library = open_fake_nccl(),
          .device = card.device(),
          .ledger = card.ledger,
          .make_queue = [&card] { return card.make_queue(); },
          .self = core::concat("rank ", rank, " (host h", rank, ")"),
          .device_id = core::concat("GPU-", rank),
          .limit_ms = kThreadsMs};
}

class Nccl : public testing::Test {
 protected:
  ~Nccl() override {
    fake_nccl().forget();
    EXPECT_EQ(fake_nccl().alive(), 0);
  }
};
class NcclOf : public Nccl, public testing::WithParamInterface<int> {};

// Values whose sum depends on the order.
std::vector<float> values_of(int rank, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = core::philox(3, i, static_cast<std::uint64_t>(rank));
    values[i] = (core::uniform_of(bits[0]) - 0.5F) * (bits[1] % 2 == 0 ? 1.0F : 1000.0F);
  }
  return values;
}

std::vector<float> tree_of_all(int ranks, std::int64_t count) {
  std::vector<std::vector<float>> all;
  std::vector<const float*> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(values_of(rank, count));
    rows.push_back(all.back().data());
  }
  std::vector<float> sum(static_cast<std::size_t>(count));
  kernels::tree_add(core::Work(), rows, count, sum.data());
  return sum;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

// An array in the memory of a card.
class CardArray {
 public:
  CardArray(FakeCard& card, std::vector<float> values)
      : card_(card),
        host_(std::move(values)),
        buffer_(core::make_f32(card.ledger, core::Account::kScratch, Elements(std::ssize(host_)),
                               card.device().memory())) {
    card_.device().compute().copy_in(host_.data(), buffer_.data(), buffer_.bytes());
    card_.device().compute().finish();
  }
  Span span() { return {buffer_.data(), Elements(std::ssize(host_)), DType::kF32}; }
  std::vector<float> read() {
    std::vector<float> values(host_.size());
    card_.device().compute().copy_out(buffer_.data(), values.data(), buffer_.bytes());
    card_.device().compute().finish();
    return values;
  }

 private:
  FakeCard& card_;
  std::vector<float> host_;
  core::Buffer buffer_;
};

void wait_on_compute(FakeCard& card, Pending pending) {
  pending.wait({.arena = {}, .queue = &card.device().compute()});
}

TEST_P(NcclOf, EveryVerbMovesWhatItSaysAndCanonicalSumsAreTheTree) {
  const auto body = [](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    place.slice = core::Bytes(16 << 10);
    ThroughDevice ranks(
        nccl(same_ranks(world), place, {"world", SumOrder::kCanonical, Messages::kAll}),
        card.device());
    EXPECT_EQ(ranks.sums(), Sums::kFixedTree);
    throw_unless_cases_hold(ranks);
  };
  EXPECT_EQ(ranks_through(body, [](const RankBody& each) { run_ranks(GetParam(), each); }),
            GetParam());
  EXPECT_EQ(fake_nccl().late_pairs(), 0) << "all are connected by the start";
  EXPECT_EQ(fake_nccl().crowded_starts(), 0) << "nothing else runs while a link connects";
}

TEST_P(NcclOf, FastSumsRepeatInAnOrderOfTheirOwn) {
  const int ranks = GetParam();
  for (const std::int64_t count : {1, 7, 4099}) {
    run_ranks(ranks, [&](Communicator& world) {
      FakeCard card(world.rank());
      const auto group = nccl(same_ranks(world), place_of(card, world.rank()), {"dp"});
      EXPECT_EQ(group->sums(), Sums::kRepeats);
      std::vector<std::vector<float>> sums;
      for (int time = 0; time < 2; ++time) {
        CardArray values(card, values_of(world.rank(), count));
        wait_on_compute(card, group->all_reduce(values.span()));
        sums.push_back(values.read());
      }
      EXPECT_TRUE(same_bits(sums[0], sums[1]));
      const std::vector<float> tree = tree_of_all(ranks, count);
      EXPECT_EQ(same_bits(sums[0], tree), ranks < 3 || count == 1);
      for (std::size_t i = 0; i < tree.size(); ++i) EXPECT_NEAR(sums[0][i], tree[i], 1e-3F);
    });
  }
}

TEST_P(NcclOf, FastPartsAreThoseOfTheWholeSum) {
  const int ranks = GetParam();
  const std::int64_t part = 1001;
  run_ranks(ranks, [&](Communicator& world) {
    FakeCard card(world.rank());
    const auto group = nccl(same_ranks(world), place_of(card, world.rank()), {"dp"});
    CardArray whole(card, values_of(world.rank(), part * ranks));
    const Span own{core::element_at(whole.span().data, Elements(part * world.rank()), DType::kF32),
                   Elements(part), DType::kF32};
    wait_on_compute(card, group->reduce_scatter(whole.span(), own));
    wait_on_compute(card, group->all_gather(own, whole.span()));
    const std::vector<float> sums = whole.read();
    const std::vector<float> tree = tree_of_all(ranks, part * ranks);
    for (std::size_t i = 0; i < tree.size(); ++i) EXPECT_NEAR(sums[i], tree[i], 1e-3F);
  });
}
INSTANTIATE_TEST_SUITE_P(Sizes, NcclOf, testing::Values(1, 2, 3, 4));

// What a verb sends is made by what was queued before, and what it receives is read behind it: no
// host waits in between.
TEST_F(Nccl, VerbsAreInOrderWithWhatIsComputed) {
  run_ranks(3, [](Communicator& world) {
    FakeCard card(world.rank());
    const auto group =
        nccl(same_ranks(world), place_of(card, world.rank()), {"dp", SumOrder::kCanonical});
    const core::Work work{.arena = {}, .queue = &card.device().compute()};
    CardArray sum(card, std::vector<float>(777, 1.0F));
    CardArray one(card, std::vector<float>(777, 1.0F));
    for (int round = 0; round < 8; ++round) {
      group->all_reduce(sum.span()).wait(work);
      kernels::add(work, 777, static_cast<const float*>(one.span().data),
                   static_cast<float*>(sum.span().data));
    }
    float wanted = 1.0F;
    for (int round = 0; round < 8; ++round) wanted = 3.0F * wanted + 1.0F;
    EXPECT_EQ(sum.read(), std::vector<float>(777, wanted));
  });
}

// What this rank computes meanwhile does not wait for the copy, and the verb does.
TEST_F(Nccl, AGatherBehindACopyLeavesTheComputingQueueAlone) {
  run_ranks(2, [](Communicator& world) {
    FakeCard card(world.rank());
    core::Device& device = card.device();
    NcclPlace place = place_of(card, world.rank());
    const std::shared_ptr<core::Queue> link = card.make_queue();
    place.make_queue = [&] { return link; };
    const auto group = nccl(same_ranks(world), place, {"dp"});
    const auto ranks = traced(*group);  // as the engine has it
    CardArray whole(card, std::vector<float>(8));
    const std::vector<float> slice(4, 1.0F + static_cast<float>(world.rank()));
    const Span own{core::element_at(whole.span().data, Elements(4 * world.rank()), DType::kF32),
                   Elements(4), DType::kF32};
    const auto gate = std::make_shared<device::Gate>();
    device.in().wait(gate);
    device.in().copy_in(slice.data(), own.data, own.bytes());
    Pending pending = ranks->all_gather_behind(device.in().record(), own, whole.span());
    const core::EventPtr gathered = link->record();
    device.compute().finish();
    EXPECT_FALSE(gathered->has_come());
    gate->open();
    wait_on_compute(card, std::move(pending));
    EXPECT_EQ(whole.read(), (std::vector<float>{1, 1, 1, 1, 2, 2, 2, 2}));
  });
}

// As the engine posts: collectives of several groups in one order, all in one queue.
TEST_F(Nccl, GroupsShareAQueueWherePostsHaveOneOrder) {
  run_ranks(4, [](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    place.make_queue = [queue = card.make_queue()] { return queue; };
    const auto all = nccl(same_ranks(world), place, {"world", SumOrder::kCanonical});
    const auto half = all->split(world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
    const auto across = all->split(world.rank() % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3});
    std::vector<CardArray> arrays;
    arrays.reserve(9);
    std::vector<Pending> pending;
    for (int round = 0; round < 3; ++round) {
      for (Communicator* const group : {all.get(), half.get(), across.get()}) {
        arrays.emplace_back(card, std::vector<float>(1000, static_cast<float>(world.rank())));
        pending.push_back(group->all_reduce(arrays.back().span()));
      }
    }
    for (auto each = pending.rbegin(); each != pending.rend(); ++each) each->finish();
    const float sums[] = {6.0F, world.rank() < 2 ? 1.0F : 5.0F,
                          world.rank() % 2 == 0 ? 2.0F : 4.0F};
    for (std::size_t i = 0; i < arrays.size(); ++i)
      EXPECT_EQ(arrays[i].read(), std::vector<float>(1000, sums[i % 3]));
  });
}

TEST_F(Nccl, NeighboursInARingSendBeforeTheyReceive) {
  run_ranks(4, [](Communicator& world) {
    FakeCard card(world.rank());
    const auto ring = nccl(same_ranks(world), place_of(card, world.rank()),
                           {"ring", SumOrder::kFast, Messages::kRing});
    const int next = (world.rank() + 1) % 4;
    const int previous = (world.rank() + 3) % 4;
    CardArray mine(card, std::vector<float>(5000, static_cast<float>(world.rank())));
    CardArray forward(card, std::vector<float>(5000)), backward(card, std::vector<float>(5000));
    std::vector<Pending> pending;
    pending.push_back(ring->send(mine.span(), next));
    pending.push_back(ring->send(mine.span(), previous));
    pending.push_back(ring->receive(backward.span(), next));
    pending.push_back(ring->receive(forward.span(), previous));
    for (Pending& each : pending) wait_on_compute(card, std::move(each));
    EXPECT_EQ(forward.read(), std::vector<float>(5000, static_cast<float>(previous)));
    EXPECT_EQ(backward.read(), std::vector<float>(5000, static_cast<float>(next)));
    EXPECT_THROW(ring->send(mine.span(), (world.rank() + 2) % 4), core::BugError);
    EXPECT_THROW(ring->send(mine.span(), world.rank()), core::BugError);
  });
}

// What fails: the error that `body` ends with.
template <class Body>
core::MachineError machine_error(const Body& body) {
  try {
    body();
  } catch (const core::MachineError& error) {
    return error;
  }
  throw std::runtime_error("nothing failed");
}
void expect_parts(const core::Error& error, core::ExitCode code,
                  const std::vector<std::string>& parts) {
  EXPECT_EQ(error.code(), code) << error.what();
  for (const std::string& part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << part << " is not in: " << error.what();
}

// Rank 0 posts a third verb, and rank 1 does not.
void wait_for_who_never_posts(Between between, const std::vector<std::string>& wanted) {
  ManualClock clock;
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  const auto body = [&](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    place.limit_ms = kLimitMs;
    place.clock = &clock;
    const auto group = nccl(same_ranks(world), place, {"dp of pipe 3"});
    CardArray values(card, std::vector<float>(12));
    group->all_reduce(values.span()).finish();
    group->all_gather({values.span().data, Elements(6), DType::kF32}, values.span()).finish();
    if (world.rank() == 1) return is_over.wait();
    Pending late = group->all_reduce(values.span());
    wait_on_compute(card, group->broadcast(values.span(), 0));
    ASSERT_TRUE(clock.await_looks(4)) << "somebody looks whether it is late";
    clock.advance(kLimitMs + 1);
    const core::MachineError error = machine_error([&] { late.finish(); });
    expect_parts(error, core::ExitCode::kHang, wanted);
    card.device().compute().finish();  // what waits in the device goes on
    const auto again = machine_error([&] { group->all_reduce(values.span()); });
    EXPECT_STREQ(again.what(), error.what()) << "the group has ended";
    over.set_value();
  };
  run_ranks(2, body, kThreadsMs, between);
}
TEST_F(Nccl, NamesTheRankThatHasNotPosted) {
  wait_for_who_never_posts(Between::kSharedMemory,
                           {"500 ms for rank 1 (host h1), which has posted 2;",
                            "all_reduce in group dp of pipe 3, number 3, 12 elements, 48 bytes"});
}
TEST_F(Nccl, NamesTheVerbWhereNobodySeesWhoIsBehind) {
  wait_for_who_never_posts(Between::kMessages,
                           {"500 ms for all_reduce in group dp of pipe 3, number 3, 12 elements"});
}

TEST_F(Nccl, NamesTheRankThatDoesNotReceive) {
  ManualClock clock;
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  const auto body = [&](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    place.limit_ms = kLimitMs;
    place.clock = &clock;
    const auto group = nccl(same_ranks(world), place, {"pipe", SumOrder::kFast, Messages::kRing});
    CardArray values(card, std::vector<float>(12));
    if (world.rank() == 1) return is_over.wait();
    Pending late = group->send(values.span(), 1);
    ASSERT_TRUE(clock.await_looks(4));
    clock.advance(kLimitMs + 1);
    expect_parts(machine_error([&] { late.finish(); }), core::ExitCode::kHang,
                 {"rank 1 (host h1), which has posted 0;",
                  "send to rank 1 (host h1) in group pipe, number 1, 12 elements"});
    over.set_value();
  };
  run_ranks(2, body, kThreadsMs, Between::kSharedMemory);
}

TEST_F(Nccl, AVerbIsNotLateWhileItsOwnRankComputes) {
  ManualClock clock;
  run_ranks(1, [&](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    place.limit_ms = kLimitMs;
    place.clock = &clock;
    const auto group = nccl(same_ranks(world), place, {"dp"});
    const auto gate = std::make_shared<device::Gate>();
    card.device().compute().wait(gate);
    const core::Buffer values =
        core::make_f32(card.ledger, core::Account::kScratch, Elements(4), card.device().memory());
    Pending pending = group->all_reduce({values.data(), Elements(4), DType::kF32});
    for (int look = 0; look < 4; ++look) {  // the group looks meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      clock.advance(10 * kLimitMs);
    }
    gate->open();
    EXPECT_NO_THROW(pending.finish());
  });
}

// All ranks post a verb at which something happens to rank 1; every rank must end with `code`.
struct Planted {
  const char* fault;
  core::ExitCode code;
  std::vector<std::string> wanted;
};
void fail_at_the_third_verb(const Planted& planted) {
  fake_nccl().fault(planted.fault, 1, 3);
  std::atomic<int> told = 0;
  run_ranks(2, [&](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    ManualClock clock;
    place.limit_ms = kLimitMs;
    place.clock = &clock;
    std::mutex mutex;
    std::vector<std::string> ends;
    place.on_end = [&](const core::MachineError& error) {
      const std::lock_guard lock(mutex);
      ends.emplace_back(error.what());
      ++told;
    };
    auto group = nccl(same_ranks(world), place, {"dp"});
    CardArray values(card, std::vector<float>(12));
    for (int verb = 0; verb < 2; ++verb) group->all_reduce(values.span()).finish();
    const auto last = [&] {
      Pending pending = group->broadcast(values.span(), 0);
      if (world.rank() == 0) {
        ASSERT_TRUE(clock.await_looks(4));
        clock.advance(kLimitMs + 1);
      }
      pending.finish();
    };
    const core::MachineError error = machine_error(last);
    if (world.rank() == 1) {
      expect_parts(error, planted.code, planted.wanted);
    } else {
      expect_parts(error, core::ExitCode::kHang, {"broadcast in group dp, number 3"});
    }
    group.reset();
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0], error.what());
  });
  EXPECT_EQ(told, 2);
}
TEST_F(Nccl, AnErrorThatComesLaterEndsTheGroup) {
  fail_at_the_third_verb({"async",
                          core::ExitCode::kPeerLost,
                          {"broadcast in group dp, number 3, 12 elements, 48 bytes",
                           "remote process exited", "rank of the test went away"}});
}
TEST_F(Nccl, AnErrorOfACallEndsTheGroup) {
  fail_at_the_third_verb({"fail",
                          core::ExitCode::kPeerLost,
                          {"broadcast in group dp, number 3", "unhandled system error",
                           "socket of the test is closed"}});
}

TEST_F(Nccl, AnAbortThatHangsHoldsNobodyUp) {
  fake_nccl().fault("hang", 0, 2);
  fake_nccl().fault("abort_hang", 0, 0);
  run_ranks(1, [&](Communicator& world) {
    ManualClock clock;
    auto card = std::make_unique<FakeCard>(world.rank());
    NcclPlace place = place_of(*card, world.rank());
    place.limit_ms = kLimitMs;
    place.end_ms = 20;
    // Giving memory back waits for this queue.
    place.make_queue = [&] {
      return std::shared_ptr<core::Queue>(&card->device().out(), [](core::Queue*) {});
    };
    place.clock = &clock;
    CardArray values(*card, std::vector<float>(12));
    {
      const auto group = nccl(same_ranks(world), place, {"dp"});
      group->all_reduce(values.span()).finish();
      Pending stuck = group->all_reduce(values.span());
      ASSERT_TRUE(clock.await_looks(4));
      clock.advance(kLimitMs + 1);
      expect_parts(machine_error([&] { stuck.finish(); }), core::ExitCode::kHang,
                   {"all_reduce in group dp, number 2"});
    }
    fake_nccl().forget();  // the process would have ended by now
    while (fake_nccl().alive() > 0) std::this_thread::yield();
  });
}

TEST_F(Nccl, TwoRanksWithOneCardAreNamed) {
  run_ranks(3, [](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    if (world.rank() == 2) place.device_id = "GPU-0";
    try {
      nccl(same_ranks(world), place, {"dp"});
      ADD_FAILURE();
    } catch (const core::UserError& error) {
      expect_parts(error, core::ExitCode::kConfigError,
                   {"rank 0 (host h0) and rank 2 (host h2) have GPU-0"});
    }
  });
}
TEST_F(Nccl, TwoRanksWithOneCardAreRefusedByTheLibrary) {
  run_ranks(2, [](Communicator& world) {
    FakeCard card(world.rank());
    fake_nccl().device(7);
    const auto error = machine_error(
        [&] { nccl(same_ranks(world), place_of(card, world.rank()), {"dp of pipe 3"}); });
    expect_parts(error, core::ExitCode::kRendezvousFailed,
                 {"group dp of pipe 3", "Duplicate GPU detected : rank 1 and rank 0"});
  });
}

TEST_F(Nccl, NoRankStartsWhereOneCannot) {
  fake_nccl().fault("init_fail", 1, 0);
  run_ranks(2, [](Communicator& world) {
    FakeCard card(world.rank());
    NcclPlace place = place_of(card, world.rank());
    place.start_ms = 200;
    const auto error = machine_error([&] { nccl(same_ranks(world), place, {"dp"}); });
    expect_parts(error, core::ExitCode::kRendezvousFailed, {"rank 0: ", "waited 200 ms"});
  });
}

TEST_F(Nccl, RefusesWhatItCannotDo) {
  run_ranks(2, [](Communicator& world) {
    FakeCard card(world.rank());
    const auto group = nccl(same_ranks(world), place_of(card, world.rank()), {"dp"});
    EXPECT_EQ(group->describe(), "NCCL 2.28.9, 2 ranks");
    EXPECT_EQ(&group->memory(), &card.device().memory());
    EXPECT_EQ(group->common_memory(), nullptr);
    Span bf16{nullptr, Elements(2), DType::kBF16};
    EXPECT_THROW(group->all_reduce(bf16), core::BugError);
    EXPECT_THROW(group->reduce_scatter(bf16, {nullptr, Elements(1), DType::kBF16}), core::BugError);
    EXPECT_THROW(group->all_gather({nullptr, Elements(2), DType::kBF16}, bf16), core::BugError);
    EXPECT_THROW(group->broadcast(bf16, 2), core::BugError);
    EXPECT_THROW(group->send(bf16, 1 - world.rank()), core::BugError) << "no messages here";
  });
}

TEST_F(Nccl, NeedsAQueueThatIsAStream) {
  FakeCard card(0);
  device::FakeDevice plain(1, core::Bytes(1 << 20));
  NcclPlace place = place_of(card, 0);
  place.make_queue = [&] {
    return std::shared_ptr<core::Queue>(&plain.compute(), [](core::Queue*) {});
  };
  EXPECT_THROW(nccl(make_solo(), place, {"dp"}), core::BugError);
}

TEST_F(Nccl, RefusesALibraryThatIsTooOld) {
  fake_nccl().fault("version", 0, 22'603);
  try {
    open_fake_nccl();
    ADD_FAILURE();
  } catch (const core::UserError& error) {
    expect_parts(error, core::ExitCode::kConfigError, {"2.27.0 or newer", "found 2.26.3"});
  }
  fake_nccl().forget();
  EXPECT_EQ(name_of(*open_fake_nccl()), "NCCL 2.28.9");
}
TEST_F(Nccl, RefusesALibraryWithoutAFunction) {
  const FindFunction find = [](const char* name) {
    return std::string(name) == "ncclCommAbort" ? nullptr : fake_nccl().find(name);
  };
  try {
    open_nccl(find);
    ADD_FAILURE();
  } catch (const core::UserError& error) {
    expect_parts(error, core::ExitCode::kConfigError, {"missing ncclCommAbort"});
  }
}

TEST_F(Nccl, SwitchesSumsOffThatDoNotRepeat) {
  unsetenv("NCCL_NVLS_ENABLE");
  open_fake_nccl();
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  open_fake_nccl();
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "1") << "the user has said so";
  unsetenv("NCCL_NVLS_ENABLE");
}

}  // namespace
}  // namespace fm::comm

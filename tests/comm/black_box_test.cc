// Verbs write into the black box of their rank.
#include "core/blackbox/black_box.h"

#include <gtest/gtest.h>

#include <vector>

#include "comm/communicator.h"
#include "comm/meet/world.h"
#include "core/check.h"

namespace fm::comm {
namespace {

using core::BoxState;
using core::Elements;

Span span_of_doubles(std::vector<double>& values, std::int64_t count) {
  return {values.data(), Elements(count), core::DType::kF64};
}

TEST(RecordedVerbs, HaveTheirGroupTheirPartnerAndTheirSize) {
  run_ranks(4, [](Communicator& inner) {
    core::BlackBox box(inner.rank());
    const auto world = traced(inner, nullptr, &box);
    const int parity = world->rank() % 2;
    const int members[] = {parity, parity + 2};
    const auto pair = world->split(members);
    pair->set_name("dp");
    std::vector<double> values(4);
    box.begin_phase(core::RunPhase::kStep, 2);
    pair->broadcast(span_of_doubles(values, 3), 1).finish();
    const std::uint64_t root = box.last_of(1, 1).at(0).number;
    EXPECT_EQ(text_of(*box.read(root), box.names()),
              core::concat("step 2, broadcast #1 of group dp[", parity, ",", parity + 2,
                           "] from rank ", parity + 2, ", 3 x fp64"));
    EXPECT_EQ(box.read(root)->state, BoxState::kDone);
    EXPECT_GT(box.waited_ns(), 0);
    EXPECT_FALSE(box.waits_for_peers());
    world->barrier().finish();
    EXPECT_EQ(box.last_of(0, 9).size(), 1U);
  });
}

TEST(RecordedVerbs, ArePostedUntilTheyAreWaitedFor) {
  run_ranks(2, [](Communicator& inner) {
    core::BlackBox box(inner.rank());
    const auto world = traced(inner, nullptr, &box);
    std::vector<double> values(1);
    const bool sends = world->rank() == 0;
    Pending pending = sends ? world->send(span_of_doubles(values, 1), 1)
                            : world->receive(span_of_doubles(values, 1), 0);
    const std::uint64_t number = box.moves() > 0 ? 2 : 0;  // behind the phase of the start
    if (!pending.done()) {
      EXPECT_EQ(box.read(number)->state, BoxState::kPosted);
      EXPECT_FALSE(box.waits_for_peers());
    }
    pending.finish();
    EXPECT_EQ(box.read(number)->state, BoxState::kDone);
  });
}

TEST(RecordedVerbs, OfARankAloneAreNone) {
  core::BlackBox box;
  const auto solo = make_solo();
  const auto world = traced(*solo, nullptr, &box);
  world->set_name("dp");
  const std::uint64_t moves = box.moves();
  std::vector<double> values(1);
  world->all_reduce(span_of_doubles(values, 1)).finish();
  EXPECT_EQ(box.moves(), moves);
  EXPECT_TRUE(box.names().groups.empty());
}

// What an error leaves open says where the rank was.
TEST(RecordedVerbs, StayOpenWhenTheirWaitFails) {
  core::BlackBox boxes[2];
  EXPECT_THROW(run_ranks(2,
                         [&](Communicator& inner) {
                           core::BlackBox& box = boxes[inner.rank()];
                           const auto world = traced(inner, nullptr, &box);
                           if (world->rank() == 1)
                             throw core::MachineError(core::ExitCode::kStorageFailed,
                                                      "the disk is full");
                           world->barrier().finish();
                         }),
               core::MachineError);
  EXPECT_TRUE(boxes[0].waits_for_peers());
  EXPECT_EQ(boxes[0].whereabouts(), "the start, barrier #1 of group world[0,1]");
}

}  // namespace
}  // namespace fm::comm

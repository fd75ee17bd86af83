// NVIDIA's NCCL with one rank on a card: its start, every verb, both orders of sums, its end.
#include "comm/nccl/nccl.h"

#include <gtest/gtest.h>

#include "comm/meet/world.h"
#include "device/cuda.h"
#include "tests/comm/collective_cases.h"
#include "tests/comm/through_device.h"

namespace fm::comm {
namespace {

TEST(NcclOnCard, OneRankHasEveryVerb) {
  const std::shared_ptr<const NcclLibrary> library = open_nccl(device::nccl_functions());
  const auto body = [&](Communicator& world) {
    const std::unique_ptr<core::Device> card =
        device::open_cuda(0, device::CardAttends::kByOurKernels);
    core::Ledger ledger;
    NcclPlace place{.library = library, .device = *card, .ledger = ledger, .make_queue = [&card] {
                      return device::new_queue(*card);
                    }};
    place.device_id = device::card_of(*card).uuid;
    place.slice = core::Bytes(16 << 10);
    const int only[] = {0};
    for (const core::SumOrder order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
      ThroughDevice ranks(nccl(world.split(only), place, {"world", order, Messages::kNone}), *card);
      throw_unless_cases_hold(ranks);
    }
  };
  EXPECT_EQ(ranks_through(body, [](const RankBody& each) { run_ranks(1, each); }), 1);
}

}  // namespace
}  // namespace fm::comm

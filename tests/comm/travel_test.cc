// What travels between hosts in fewer bytes: the bound of its error, the same bits on every rank,
// and the bytes that are sent. Bounds are worked out here from the largest numbers alone.
#include "comm/travel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/host_layout.h"
#include "comm/meet/world.h"
#include "comm/staged/staged.h"
#include "core/element.h"
#include "device/fake/fake_device.h"
#include "tests/comm/through_device.h"

namespace fm::comm {
namespace {

using core::DType;
using core::Elements;
using Floats = std::vector<float>;

// Of one conversion, as a part of the largest magnitude in its block.
double error_of(Travel travel) {
  switch (travel) {
    case Travel::kWhole: return 0.0;
    case Travel::kBF16: return 0x1p-8;
    case Travel::kF16: return 0x1p-11;
    case Travel::kInt8: return 1.0 / 254.0;
    case Travel::kInt4: return 1.0 / 14.0;
  }
  return 0.0;
}
constexpr Travel kNarrow[] = {Travel::kBF16, Travel::kF16, Travel::kInt8, Travel::kInt4};

// In [-1, 1], another one for every rank and element.
float value_of(int rank, std::int64_t element) {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(rank) * 1'000'003U + static_cast<std::uint64_t>(element) + 17U) *
      0x9E3779B97F4A7C15U;
  return static_cast<float>(static_cast<std::int64_t>(mixed >> 40) - (1 << 23)) * 0x1p-23F;
}
Floats values_of(int rank, std::int64_t count) {
  Floats out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = value_of(rank, i);
  return out;
}
double sum_of(int ranks, std::int64_t element) {
  double sum = 0.0;
  for (int rank = 0; rank < ranks; ++rank) sum += double{value_of(rank, element)};
  return sum;
}

std::unique_ptr<Communicator> all_of(Communicator& world, Travel travel) {
  std::vector<int> all;
  for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank);
  return world.split_narrow(all, travel);
}

// By rank what a body returns.
using Body = std::function<Floats(Communicator& world)>;
std::vector<Floats> run_each(const std::vector<int>& host_of, const Body& body) {
  std::vector<Floats> out(host_of.size());
  run_ranks_on_hosts(host_of, [&](Communicator& world) {
    out[static_cast<std::size_t>(world.rank())] = body(world);
  });
  return out;
}

class Travels : public testing::TestWithParam<std::vector<int>> {
 protected:
  const std::vector<int>& hosts() const { return GetParam(); }
  int ranks() const { return static_cast<int>(hosts().size()); }
  bool several_hosts() const { return std::set(hosts().begin(), hosts().end()).size() > 1; }
};

constexpr std::int64_t kSizes[] = {1, 3, 511, 513, 5000};

Floats reduced(Communicator& group, std::int64_t part) {
  const Floats all = values_of(group.rank(), part * group.size());
  Floats own(static_cast<std::size_t>(part));
  group.reduce_scatter({all.data(), Elements(std::ssize(all)), DType::kF32}, span_of(own)).finish();
  return own;
}

// Every rank's contribution is rounded once at most, as a part of its node.
TEST_P(Travels, ASumIsAsFarFromTheExactOneAsItsPartsMayBe) {
  for (const Travel travel : kNarrow) {
    for (const std::int64_t part : kSizes) {
      const auto sums = run_each(
          hosts(), [&](Communicator& world) { return reduced(*all_of(world, travel), part); });
      const double bound = ranks() * error_of(travel) + ranks() * 1e-6;
      for (int rank = 0; rank < ranks(); ++rank) {
        for (std::int64_t i = 0; i < part; ++i) {
          const double got =
              double{sums[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)]};
          ASSERT_NEAR(got, sum_of(ranks(), rank * part + i), bound) << rank << ": " << i;
        }
      }
    }
  }
}

TEST_P(Travels, TheSameSumComesAgain) {
  const Body body = [&](Communicator& world) {
    return reduced(*all_of(world, Travel::kInt4), 5000);
  };
  EXPECT_EQ(run_each(hosts(), body), run_each(hosts(), body));
}

TEST_P(Travels, WholeNumbersHaveTheBitsOfTheOtherVerbs) {
  const Body narrow = [&](Communicator& world) { return reduced(*all_of(world, {}), 513); };
  const Body plain = [&](Communicator& world) { return reduced(world, 513); };
  EXPECT_EQ(run_each(hosts(), narrow), run_each(hosts(), plain));
}

// Whole numbers up to 127 are exact in 8 bits where every block has that one, and in bf16.
TEST(TravelOfWholeNumbers, AddsThemExactly) {
  const std::vector<int> hosts = {0, 1, 2};
  for (const Travel travel : {Travel::kBF16, Travel::kF16, Travel::kInt8}) {
    const auto number = [](int rank, std::int64_t i) {
      return i % 511 == 0 ? 127.0F : static_cast<float>((i * 7 + rank * 31) % 255 - 127);
    };
    constexpr std::int64_t kPart = 1024;
    const auto sums = run_each(hosts, [&](Communicator& world) {
      Floats all;
      for (std::int64_t i = 0; i < kPart * world.size(); ++i)
        all.push_back(number(world.rank(), i % kPart));
      Floats own(kPart);
      all_of(world, travel)
          ->reduce_scatter({all.data(), Elements(std::ssize(all)), DType::kF32}, span_of(own))
          .finish();
      return own;
    });
    for (const Floats& own : sums) {
      for (std::int64_t i = 0; i < kPart; ++i) {
        float expected = 0.0F;
        for (int rank = 0; rank < 3; ++rank) expected += number(rank, i);
        ASSERT_EQ(own[static_cast<std::size_t>(i)], expected) << i;
      }
    }
  }
}

// The owner and the ranks of its host read the same as all others, though nothing travels to them.
TEST_P(Travels, EveryRankGathersTheSameBitsNearTheOwnersNumbers) {
  for (const Travel travel : kNarrow) {
    for (const std::int64_t part : kSizes) {
      const auto gathered = run_each(hosts(), [&](Communicator& world) {
        const Floats own = values_of(world.rank(), part);
        Floats all(static_cast<std::size_t>(part * world.size()));
        all_of(world, travel)
            ->all_gather({own.data(), Elements(part), DType::kF32}, span_of(all))
            .finish();
        return all;
      });
      for (const Floats& all : gathered) ASSERT_EQ(all, gathered.front());
      bool rounded = false;
      for (int rank = 0; rank < ranks(); ++rank) {
        for (std::int64_t i = 0; i < part; ++i) {
          const float got = gathered[0][static_cast<std::size_t>(rank * part + i)];
          ASSERT_NEAR(got, value_of(rank, i), error_of(travel) + 1e-6);
          rounded = rounded || got != value_of(rank, i);
        }
      }
      const bool tells = part > 500;  // of few numbers all may be exact
      EXPECT_TRUE(!tells || rounded == several_hosts());
    }
  }
}

// In place, and of numbers that are bf16 already.
TEST_P(Travels, NarrowNumbersGatherInPlace) {
  constexpr std::int64_t kPart = 700;
  const auto gathered = run_each(hosts(), [&](Communicator& world) {
    std::vector<core::Bf16> all(static_cast<std::size_t>(kPart * world.size()));
    core::Bf16* const own = all.data() + kPart * world.rank();
    for (std::int64_t i = 0; i < kPart; ++i) own[i] = core::to_bf16(value_of(world.rank(), i));
    all_of(world, Travel::kInt8)
        ->all_gather({own, Elements(kPart), DType::kBF16},
                     {all.data(), Elements(std::ssize(all)), DType::kBF16})
        .finish();
    Floats out;
    for (const core::Bf16 value : all) out.push_back(core::to_float(value));
    return out;
  });
  for (const Floats& all : gathered) ASSERT_EQ(all, gathered.front());
  for (int rank = 0; rank < ranks(); ++rank) {
    for (std::int64_t i = 0; i < kPart; ++i) {
      // bf16 before and behind the blocks
      ASSERT_NEAR(gathered[0][static_cast<std::size_t>(rank * kPart + i)], value_of(rank, i),
                  1.0 / 254.0 + 2 * 0x1p-8);
    }
  }
}

TEST_P(Travels, EveryRankHasTheSameSumOfAll) {
  for (const Travel travel : kNarrow) {
    for (const std::int64_t count : {5, 1025, 5000}) {  // the first in one phase, and whole
      const auto sums = run_each(hosts(), [&](Communicator& world) {
        Floats all = values_of(world.rank(), count);
        all_of(world, travel)->all_reduce(span_of(all)).finish();
        return all;
      });
      for (const Floats& sum : sums) ASSERT_EQ(sum, sums.front());
      const double once = count == 5 ? 0.0 : error_of(travel);
      const double bound = ranks() * once * (2.0 + once) + ranks() * 1e-6;  // parts, then sums
      for (std::int64_t i = 0; i < count; ++i)
        ASSERT_NEAR(sums[0][static_cast<std::size_t>(i)], sum_of(ranks(), i), bound);
    }
  }
}

TEST_P(Travels, CountsTravelWhole) {
  run_ranks_on_hosts(hosts(), [&](Communicator& world) {
    std::vector<std::int64_t> counts(3000, (std::int64_t{1} << 40) + world.rank());
    all_of(world, Travel::kInt4)
        ->all_reduce({counts.data(), Elements(std::ssize(counts)), DType::kI64})
        .finish();
    const std::int64_t ranks = world.size();
    for (const std::int64_t count : counts)
      ASSERT_EQ(count, (ranks << 40) + ranks * (ranks - 1) / 2);
  });
}

// 512 numbers and their scale; two numbers to a byte of 4 bits.
TEST(TravelBytes, AreThoseOfTheNumbersAndTheirScales) {
  const auto bytes = [](Travel travel, std::int64_t elements, DType dtype = DType::kF32) {
    return travel_bytes(travel, Elements(elements), dtype).count();
  };
  EXPECT_EQ(bytes(Travel::kWhole, 1000), 4000);
  EXPECT_EQ(bytes(Travel::kBF16, 1000), 2000);
  EXPECT_EQ(bytes(Travel::kF16, 1000), 2000);
  EXPECT_EQ(bytes(Travel::kInt8, 1024), 1024 + 8);
  EXPECT_EQ(bytes(Travel::kInt8, 1025), 1025 + 12);
  EXPECT_EQ(bytes(Travel::kInt4, 1024), 512 + 8);
  EXPECT_EQ(bytes(Travel::kInt4, 1025), 513 + 12);
  EXPECT_EQ(bytes(Travel::kInt8, 1024, DType::kBF16), 1024 + 8);
  EXPECT_EQ(bytes(Travel::kBF16, 1024, DType::kBF16), 2048);
  EXPECT_EQ(bytes(Travel::kInt4, 1024, DType::kI64), 8192);
}

// Two hosts of two ranks: each rank sends its own piece, and the node of its host for one client.
TEST(TravelBytes, AreWhatIsSent) {
  const std::map<Travel, std::int64_t> expected = {
      {Travel::kWhole, 4096}, {Travel::kBF16, 2048}, {Travel::kInt8, 1032}, {Travel::kInt4, 520}};
  for (const auto& [travel, bytes] : expected) {
    run_ranks_on_hosts({0, 0, 1, 1}, [&, travel = travel, bytes = bytes](Communicator& world) {
      const auto group = all_of(world, travel);
      Floats own = values_of(world.rank(), 1024);
      Floats all(4096);
      const std::int64_t before = world.sent().count();
      group->all_gather(span_of(own), span_of(all)).finish();
      const std::int64_t between = traced(world)->sent().count();
      group->reduce_scatter(span_of(all), span_of(own)).finish();
      EXPECT_EQ(between - before, bytes);
      EXPECT_EQ(world.sent().count() - between, bytes);
    });
  }
}

TEST(TravelOfDevices, IsStagedLikeTheOthers) {
  run_ranks_on_hosts({0, 0, 1}, [](Communicator& world) {
    device::FakeDevice device(static_cast<std::uint64_t>(world.rank()), core::Bytes(64 << 20));
    const auto alike = staged(all_of(world, {}), device);
    ThroughDevice ranks(alike->split_narrow(std::vector{0, 1, 2}, Travel::kInt8), device);
    const Floats expected = reduced(*all_of(world, Travel::kInt8), 600);
    EXPECT_EQ(reduced(ranks, 600), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, Travels,
                         testing::Values(std::vector{0, 0}, std::vector{0, 1},
                                         std::vector{0, 0, 1, 1}, std::vector{0, 0, 1},
                                         std::vector{0, 1, 2}, std::vector{0, 1, 0, 1},
                                         std::vector{0, 0, 0, 1, 1, 2}),
                         [](const auto& layout) {
                           std::string name = "Ranks";
                           for (const int host : layout.param)
                             name += static_cast<char>('A' + host);
                           return name;
                         });

}  // namespace
}  // namespace fm::comm

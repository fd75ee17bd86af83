// What a device gives away, by its own count, against the plan: --plan says before the run what a
// GPU must have, and after the first step nothing is taken any more.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "comm/meet/world.h"
#include "device/fake/fake_device.h"
#include "engine/plan/run_model.h"
#include "small_run.h"

namespace fm::engine {
namespace {

// What no plan counts: ids, and numbers but those of gradients that kernels leave for the host.
constexpr std::int64_t kBeside = 36'000;

// Of one device.
struct Given {
  std::int64_t most = 0;  // bytes at once
  int times = 0;
};

class CountedDevice : public device::FakeDevice {
 public:
  CountedDevice(std::uint64_t seed, Given& given) : FakeDevice(seed), memory_(*this, given) {}
  core::MemorySource& memory() override { return memory_; }

 private:
  class Memory : public core::MemorySource {
   public:
    Memory(CountedDevice& device, Given& given) : device_(device), given_(given) {}
    bool of_host() const override { return false; }
    void* allocate(core::Bytes bytes) override {
      void* const data = device_.FakeDevice::memory().allocate(bytes);
      ++given_.times;
      given_.most = std::max(given_.most, device_.memory_taken().count());
      return data;
    }
    void release(void* data, core::Bytes bytes) noexcept override {
      device_.FakeDevice::memory().release(data, bytes);
    }
    std::unique_ptr<core::JoinedMemory> join(const core::JoinedParts& parts) override {
      return device_.FakeDevice::memory().join(parts);
    }

   private:
    CountedDevice& device_;
    Given& given_;
  };
  Memory memory_;
};

// By rank.
std::vector<Given> given_in(const TrainOptions& options, int dp_size, int steps) {
  std::vector<Given> given(static_cast<std::size_t>(dp_size * options.pipe_parallel_size));
  const MakeDevice make = [&](int rank) {
    return std::make_unique<CountedDevice>(static_cast<std::uint64_t>(rank) + 1,
                                           given[static_cast<std::size_t>(rank)]);
  };
  run_small_on(make, options, dp_size, steps);
  return given;
}

// By rank.
std::vector<core::Bytes> planned_in(const TrainOptions& options, int dp_size) {
  const int ranks = dp_size * options.pipe_parallel_size;
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, {ranks});
  std::vector<core::Bytes> planned;
  for (int rank = 0; rank < ranks; ++rank) {
    const MemoryForecast memory = plan.memory(plan.mesh.position_of(rank).pipe_rank);
    planned.push_back(memory.total() - memory.tables);  // a queue has those in memory of its own
  }
  return planned;
}

void expect_as_planned(const TrainOptions& options, int dp_size) {
  const std::vector<Given> one_step = given_in(options, dp_size, 1);
  const std::vector<Given> three_steps = given_in(options, dp_size, 3);
  const std::vector<core::Bytes> planned = planned_in(options, dp_size);
  for (std::size_t rank = 0; rank < planned.size(); ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_GE(three_steps[rank].most, planned[rank].count());
    EXPECT_LE(three_steps[rank].most, planned[rank].count() + kBeside);
    EXPECT_EQ(three_steps[rank].times, one_step[rank].times) << "taken after the first step";
  }
}

using Cell = std::tuple<int, int, int>;  // zero, dp, pipe
class DeviceMemory : public testing::TestWithParam<Cell> {};

TEST_P(DeviceMemory, IsWhatThePlanSays) {
  const auto [zero_stage, dp_size, pipe_ranks] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    for (const core::SumOrder order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
      SCOPED_TRACE(core::concat(core::name_of(element), ", order ", static_cast<int>(order)));
      TrainOptions options = small_options(testing::TempDir() + "/fm_device_memory", true);
      options.device.kind = DeviceKind::kFake;
      options.element = element;
      options.sum_order = order;
      options.shared_memory = false;
      options.zero_stage = zero_stage;
      options.pipe_parallel_size = pipe_ranks;
      options.recompute = dp_size == 1;
      expect_as_planned(options, dp_size);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceMemory,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2),
                                          testing::Values(1, 2)),
                         [](const auto& at) {
                           return "Zero" + std::to_string(std::get<0>(at.param)) + "Dp" +
                                  std::to_string(std::get<1>(at.param)) + "Pipe" +
                                  std::to_string(std::get<2>(at.param));
                         });

// A card's rows of logits lie apart (777 columns): the plan has what lies between them.
TEST(CardMemory, IsWhatThePlanSays) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    SCOPED_TRACE(core::name_of(element));
    TrainOptions options = small_options(testing::TempDir() + "/fm_card_memory", true);
    options.device.kind = DeviceKind::kCuda;
    options.element = element;
    options.shared_memory = false;
    const core::Bytes planned = planned_in(options, 1).front();
    expect_as_planned(options, 1);
    options.device.kind = DeviceKind::kFake;
    EXPECT_GT(planned, planned_in(options, 1).front());
  }
}

}  // namespace
}  // namespace fm::engine

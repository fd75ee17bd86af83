// The engine on the fake device: the bits of this CPU, whenever its queues run (docs/numbers.md,
// "On a device").
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "core/fault.h"
#include "decoded_numbers.h"
#include "device/fake/fake_device.h"
#include "device/fake/queue_runner.h"
#include "document_rows.h"
#include "model/units/lora.h"
#include "tests/device/counted_waits.h"
#include "tests/model/family_jsons.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

TrainOptions device_options(bool tied, core::DType element = core::DType::kF32) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_device", tied);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  options.shared_memory = false;
  return options;
}

// FM_DEVICE_SEED: other times for all of these tests.
std::uint64_t seed_of_tests() {
  const char* const given = std::getenv("FM_DEVICE_SEED");
  return given == nullptr ? 1 : std::stoull(given);
}

RunTrace on_cpu(TrainOptions options, int dp_size, int steps = kSteps) {
  options.device.kind = DeviceKind::kCpu;
  return run_small(std::move(options), dp_size, steps);
}
RunTrace on_fake(TrainOptions options, int dp_size, std::uint64_t seed = seed_of_tests()) {
  options.device = {DeviceKind::kFake, seed};
  return run_small(std::move(options), dp_size, kSteps);
}

void expect_as_cpu(const TrainOptions& options, int dp_size) {
  const RunTrace expected = on_cpu(options, dp_size);
  EXPECT_NE(expected.losses.front(), expected.losses.back());
  EXPECT_EQ(first_difference(expected, on_fake(options, dp_size)), "");
}

using Cell = std::tuple<int, int, int, bool>;  // zero, dp, pipe, tied
class DeviceMatrix : public testing::TestWithParam<Cell> {};

TEST_P(DeviceMatrix, EqualsOneRankOfThisCpuBitForBit) {
  const auto [zero_stage, dp_size, pipe_ranks, tied] = GetParam();
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16, core::DType::kF16}) {
    if (element != core::DType::kF32 && (!tied || dp_size == 4)) continue;
    SCOPED_TRACE(core::name_of(element));
    TrainOptions options = device_options(tied, element);
    const RunTrace expected = on_cpu(options, 1);
    options.zero_stage = zero_stage;
    options.pipe_parallel_size = pipe_ranks;
    options.recompute = zero_stage % 2 == 1;
    EXPECT_EQ(first_difference(expected, on_fake(options, dp_size)), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceMatrix,
                         testing::Combine(testing::Values(0, 1, 2, 3), testing::Values(1, 2, 3, 4),
                                          testing::Values(1, 2), testing::Bool()),
                         [](const auto& at) {
                           return "Zero" + std::to_string(std::get<0>(at.param)) + "Dp" +
                                  std::to_string(std::get<1>(at.param)) + "Pipe" +
                                  std::to_string(std::get<2>(at.param)) +
                                  (std::get<3>(at.param) ? "Tied" : "Untied");
                         });

TEST(DeviceRun, EverySchedule) {
  for (const char* const schedule : {"gpipe", "zb-h1", "zb-2p"}) {
    SCOPED_TRACE(schedule);
    TrainOptions options = device_options(true);
    options.batch = {8, 1, {}};
    options.schedule = &schedule_named(schedule);
    options.pipe_parallel_size = 2;
    options.zero_stage = 1;
    expect_as_cpu(options, 2);
  }
}

TEST(DeviceRun, StepsThatAreValidatedLater) {
  TrainOptions options = device_options(true);
  options.pipe_parallel_size = 2;
  options.post_validation = true;
  expect_as_cpu(options, 2);
}

TEST(DeviceRun, FastOrder) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    TrainOptions options = device_options(true);
    options.sum_order = core::SumOrder::kFast;
    options.zero_stage = zero_stage;
    expect_as_cpu(options, 2);
  }
}

TEST(DeviceRun, TensorRanks) {
  for (const bool split_tokens : {false, true}) {
    for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
      SCOPED_TRACE(testing::Message() << split_tokens << core::name_of(element));
      TrainOptions options = device_options(split_tokens, element);
      options.megatron_sequence_parallel = split_tokens;
      options.model_parallel_size = 2;
      options.zero_stage = split_tokens ? 3 : 1;
      expect_as_cpu(options, 2);
    }
  }
  TrainOptions holders = device_options(true);  // six ranks, and two heads of keys
  holders.model_parallel_size = 6;
  expect_as_cpu(holders, 1);
}

TEST(DeviceRun, SequenceRanks) {
  for (const SequenceMethod method :
       {SequenceMethod::kUlysses, SequenceMethod::kRing, SequenceMethod::kUsp}) {
    for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(method) << core::name_of(element));
      TrainOptions options = device_options(true, element);
      options.sequence_method = method;
      options.sequence_parallel_size = method == SequenceMethod::kUsp ? 4 : 2;
      expect_as_cpu(options, 1);
    }
  }
  TrainOptions uneven = device_options(true);  // six heads on four ranks
  uneven.sequence_method = SequenceMethod::kUlysses;
  uneven.sequence_parallel_size = 4;
  expect_as_cpu(uneven, 1);
}

TEST(DeviceRun, EveryRule) {
  for (const optim::OptimizerRow* rule :
       {&optim::kLion, &optim::kAdagrad, &optim::kLamb, &optim::kMuon, &optim::kSgd}) {
    SCOPED_TRACE(std::string(rule->name));
    TrainOptions options = device_options(true);
    options.optimizer = {.rule = rule, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.9};
    options.optimizer.min_coeff = 0.0;
    for (const int zero_stage : {0, 2}) {
      options.zero_stage = zero_stage;
      expect_as_cpu(options, 2);
    }
    if (rule == &optim::kMuon) continue;  // whole matrices
    options.model_parallel_size = 2;
    expect_as_cpu(options, 1);
  }
}

TEST(DeviceRun, AdaptersWithDropout) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    TrainOptions options = device_options(true, element);
    options.lora.r = 3;
    options.lora.alpha = 5.0;
    options.lora.dropout = 0.3;
    options.lora.targets = {model::kAllLinear};
    options.lora.modules_to_save = {"norm"};
    options.zero_stage = 3;
    expect_as_cpu(options, 2);
    options.zero_stage = 0;
    options.model_parallel_size = 2;
    expect_as_cpu(options, 1);
  }
}

TEST(DeviceRun, TwentySeeds) {
  TrainOptions options = device_options(true, core::DType::kBF16);
  options.pipe_parallel_size = 2;
  options.zero_stage = 3;
  const RunTrace expected = on_cpu(options, 2);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(first_difference(expected, on_fake(options, 2, seed)), "") << "seed " << seed;
  }
}

class DeviceFamilies : public testing::TestWithParam<model::FamilyJson> {};

TEST_P(DeviceFamilies, EqualThisCpuBitForBit) {
  TrainOptions options = device_options(true);
  options.model_config = testing::TempDir() + "/fm_device/" + GetParam().name + ".json";
  std::ofstream(options.model_config) << GetParam().text;
  expect_as_cpu(options, 1);
  options.element = core::DType::kBF16;
  options.pipe_parallel_size = 2;
  options.document_attention = true;
  options.max_seq_len = 16;
  const DocumentRows rows;
  const RunTrace expected = run_small(options, 1, kSteps, &rows);
  options.device = {DeviceKind::kFake, seed_of_tests()};
  EXPECT_EQ(first_difference(expected, run_small(options, 1, kSteps, &rows)), "");
}

INSTANTIATE_TEST_SUITE_P(All, DeviceFamilies, testing::ValuesIn(model::family_jsons()),
                         [](const auto& at) { return at.param.name; });

TEST(DeviceRun, DocumentsOnRanksThatShareRows) {
  const DocumentRows rows;
  for (const SequenceMethod method : {SequenceMethod::kUlysses, SequenceMethod::kRing}) {
    TrainOptions options = device_options(true);
    options.document_attention = true;
    options.sequence_method = method;
    options.sequence_parallel_size = 2;
    const RunTrace expected = run_small(options, 1, kSteps, &rows);
    options.device = {DeviceKind::kFake, seed_of_tests()};
    EXPECT_EQ(first_difference(expected, run_small(options, 1, kSteps, &rows)), "");
  }
}

// Whole runs: files, evaluations, signals of numbers that are none.
class DeviceTrainer : public TrainerCase {
 protected:
  TrainOptions at(const TrainOptions& whole, const std::string& output, DeviceKind kind) const {
    TrainOptions out = whole;
    out.output_dir = (folder() / output).string();
    out.device = {kind, seed_of_tests()};
    return out;
  }
  static void expect_equal_files(const TrainOptions& a, const TrainOptions& b,
                                 const std::string& file) {
    const std::string one = content(std::filesystem::path(a.output_dir) / file);
    EXPECT_FALSE(one.empty()) << file;
    EXPECT_EQ(one, content(std::filesystem::path(b.output_dir) / file)) << file;
  }
  static void expect_equal_lines(const TrainOptions& a, const TrainOptions& b, int steps) {
    const auto one = metrics(a);
    const auto other = metrics(b);
    for (int step = 1; step <= steps; ++step) {
      EXPECT_EQ(one.at(step).loss, other.at(step).loss) << "step " << step;
      EXPECT_EQ(one.at(step).grad_norm, other.at(step).grad_norm) << "step " << step;
      EXPECT_EQ(one.at(step).skipped, other.at(step).skipped) << "step " << step;
      if (step != steps) continue;
      EXPECT_EQ(one.at(step).eval_loss, other.at(step).eval_loss);
      EXPECT_GT(one.at(step).eval_loss, 0.0);
    }
  }
};

TEST_F(DeviceTrainer, GoesOnOnAnotherDeviceWithTheSameBits) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    const std::string name(core::name_of(element));
    TrainOptions whole = at(options("", 6), "whole" + name, DeviceKind::kCpu);
    whole.element = element;
    whole.eval_data_path = whole.data_path;
    whole.save_steps = 2;
    ASSERT_EQ(run(whole), 0);
    TrainOptions part = at(whole, "part" + name, DeviceKind::kFake);
    part.train_steps = 2;
    part.zero_stage = 3;
    ASSERT_EQ(run(part, 2), 0);
    part.train_steps = 4;
    part.device.kind = DeviceKind::kCpu;
    part.resume = checkpoint::Resume::kMust;
    ASSERT_EQ(run(part, 2), 0);
    part.train_steps = 6;
    part.device.kind = DeviceKind::kFake;
    part.zero_stage = 1;
    part.pipe_parallel_size = 2;
    ASSERT_EQ(run(part, 4), 0);
    expect_equal_lines(whole, part, 6);
    expect_equal_files(whole, part, "hf/model.safetensors");
    expect_equal_files(whole, part, "global_step6/weights-0001.safetensors");
    expect_equal_files(whole, part, "global_step6/exp_avg_sq-0003.safetensors");
  }
}

TEST_F(DeviceTrainer, AnOverflowIsFoundAndSkipped) {
  TrainOptions cpu = at(options("", 10), "cpu", DeviceKind::kCpu);
  cpu.element = core::DType::kF16;
  cpu.loss_scale = {.first = 0x1p22, .hysteresis = 1};
  cpu.eval_data_path = cpu.data_path;
  cpu.shared_memory = false;
  cpu.zero_stage = 2;
  const TrainOptions fake = at(cpu, "fake", DeviceKind::kFake);
  ASSERT_EQ(run(cpu, 2), 0);
  ASSERT_EQ(run(fake, 2), 0);
  EXPECT_TRUE(metrics(cpu).at(1).skipped);
  EXPECT_FALSE(metrics(cpu).at(10).skipped);
  expect_equal_lines(cpu, fake, 10);
}

TEST_F(DeviceTrainer, TheFirstNumberThatIsNoneIsNamed) {
  std::string said[2];
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kFake}) {
    core::arm_faults("point=bwd.layer,step=2,action=nan");
    TrainOptions poisoned = at(options("", 3), kind == DeviceKind::kCpu ? "cpu" : "fake", kind);
    testing::internal::CaptureStderr();
    ASSERT_EQ(run(poisoned), 0);
    const std::string text = testing::internal::GetCapturedStderr();
    const std::size_t begin = text.find("step 2 skipped");
    ASSERT_NE(begin, std::string::npos) << text;
    said[kind == DeviceKind::kCpu ? 0 : 1] = text.substr(begin, text.find('\n', begin) - begin);
  }
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(DeviceTrainer, ATraceHasTheTimesOfTheQueue) {
  TrainOptions fake = at(options("", 2), "fake", DeviceKind::kFake);
  fake.trace = (folder() / "trace.json").string();
  fake.trace_steps = {2, 2};
  ASSERT_EQ(run(fake), 0);
  int kernels = 0;  // of the queue
  double before = 0.0;
  const nlohmann::json trace = nlohmann::json::parse(content(fake.trace));
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("cat") != "kernel") continue;
    if (event.at("tid") == 0) {  // sums of what is staged are the host's
      EXPECT_TRUE(event.at("name").get<std::string>().starts_with("tree_add")) << event;
      continue;
    }
    ++kernels;
    EXPECT_GE(event.at("ts").get<double>(), before) << event << ": one after the other";
    EXPECT_GE(event.at("dur").get<double>(), 0.0);
    before = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_GT(kernels, 100);
}

// A device whose clock is the number of tasks that it has run: none before somebody waits.
class CountingRunner : public device::EarlyOrLate {
 public:
  explicit CountingRunner(std::int64_t& tasks) : EarlyOrLate(When::kLate), tasks_(tasks) {}
  void push(Task task) override {
    EarlyOrLate::push([&tasks = tasks_, task = std::move(task)] {
      ++tasks;
      task();
    });
  }

 private:
  std::int64_t& tasks_;
};

class CountingQueue : public device::FakeQueue {
 public:
  CountingQueue(const device::TwoViews& views, core::MemorySource& memory, std::int64_t& tasks)
      : FakeQueue(views, memory, std::make_unique<CountingRunner>(tasks)), tasks_(tasks) {}
  void tell_time(std::int64_t* ns) override {
    push([ns, &tasks = tasks_] { *ns = 1'000'000 * tasks; });
  }

 private:
  std::int64_t& tasks_;
};

TEST_F(DeviceTrainer, PhasesAreWhatTheDeviceDoes) {
  TrainOptions fake = at(options("", 3), "fake", DeviceKind::kFake);
  fake.shared_memory = false;
  fake.saves = false;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    std::int64_t tasks = 0;
    device::FakeDevice device(
        [&](device::FakeDevice::Name, const device::TwoViews& views, core::MemorySource& memory) {
          return std::make_unique<CountingQueue>(views, memory, tasks);
        });
    RunContext context;
    context.computes.device = &device;
    EXPECT_EQ(train(fake, open_run_model(fake), world, context), 0);
  });
  std::ifstream lines(std::filesystem::path(fake.output_dir) / "metrics.jsonl");
  int steps = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("start")) continue;
    SCOPED_TRACE(line);
    const auto phases = json.at("phases").get<std::map<std::string, double>>();
    const double computing = phases.at("forward") + phases.at("loss") + phases.at("backward");
    const double rest = phases.at("reduce") + phases.at("gather") + phases.at("optimizer");
    EXPECT_GT(computing, 2 * rest);
    EXPECT_GT(phases.at("forward"), phases.at("reduce"));
    EXPECT_GT(phases.at("backward"), phases.at("forward"));
    // The update of a step runs while the next one is made.
    EXPECT_EQ(phases.at("optimizer") > 0.0, ++steps > 1);
  }
  EXPECT_EQ(steps, 3);
}

int waits_in(const TrainOptions& options, int steps) {
  int waits = 0;
  const MakeDevice make = [&](int) {
    return device::device_that_counts(waits, device::FakeDevice::kMemory);
  };
  run_small_on(make, options, 1, steps);
  return waits;
}

// Losses, squares and flags are read once a step.
TEST(DeviceRun, AStepOfMoreLayersWaitsNoMoreOften) {
  for (const core::SumOrder order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
    for (const core::DType element : {core::DType::kF32, core::DType::kF16}) {
      SCOPED_TRACE(core::concat(core::name_of(element), ", order ", static_cast<int>(order)));
      const auto waits_of_step = [&](int layers) {
        TrainOptions options =
            thin_options(testing::TempDir() + "/fm_device_waits", true, {layers, 32, 2, 1, 48});
        options.device.kind = DeviceKind::kFake;
        options.sum_order = order;
        options.element = element;
        if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
        options.shared_memory = false;
        return waits_in(options, 3) - waits_in(options, 2);
      };
      EXPECT_EQ(waits_of_step(2), waits_of_step(4));
    }
  }
}

TEST_F(DeviceTrainer, GradientsAndMergedAdaptersAreWritten) {
  TrainOptions cpu = at(options("", 2), "cpu", DeviceKind::kCpu);
  cpu.lora.r = 3;
  cpu.lora.targets = {model::kAllLinear};
  cpu.zero_stage = 3;
  cpu.shared_memory = false;
  const TrainOptions fake = at(cpu, "fake", DeviceKind::kFake);
  ASSERT_EQ(run(cpu, 2), 0);
  ASSERT_EQ(run(fake, 2), 0);
  expect_equal_files(cpu, fake, "hf/model.safetensors");
  expect_equal_files(cpu, fake, "adapter/adapter_model.safetensors");
  TrainOptions dumps[] = {at(options("", 1), "cpu", DeviceKind::kCpu),
                          at(options("", 1), "fake", DeviceKind::kFake)};
  for (TrainOptions& dump : dumps) {
    dump.resume = checkpoint::Resume::kNever;
    dump.dump_gradients = dump.output_dir + "/gradients";
    ASSERT_EQ(run(dump), 0);
  }
  expect_equal_files(dumps[0], dumps[1], "gradients");
}

// This CPU has products of its own for a few rows.
TEST_F(DeviceTrainer, DecodesNearThisCpu) {
  const TrainOptions cpu = at(options("", 2), "cpu", DeviceKind::kCpu);
  ASSERT_EQ(run(cpu), 0);
  const std::filesystem::path model = std::filesystem::path(cpu.output_dir) / "hf";
  device::FakeDevice fake(seed_of_tests());
  const std::vector<double> expected = decoded_numbers(model, core::DType::kF32, nullptr);
  const std::vector<double> got = decoded_numbers(model, core::DType::kF32, &fake);
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(expected[i], got[i], 1e-4) << i;
}

}  // namespace
}  // namespace fm::engine

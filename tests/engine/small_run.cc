#include "small_run.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>

#include "comm/meet/world.h"
#include "core/check.h"
#include "device/fake/fake_device.h"
#include "engine/state/persistence.h"
#include "engine/step/step_runtime.h"
#include "engine/step/tensors.h"

namespace fm::engine {
namespace {

void write_tokens(const std::string& path) {
  if (std::filesystem::exists(path)) return;
  std::mt19937 random(7);
  std::vector<std::int32_t> ids(17 * 40);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % 777);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()),
             static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
}

void write_config(const std::string& path, bool tied) {
  std::ofstream(path) << R"({"model_type": "llama", "hidden_size": 96, "num_hidden_layers": 5,
    "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 250,
    "vocab_size": 777, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": )"
                      << (tied ? "true" : "false") << "}";
}

StepRequest request_of(const TrainOptions& options, int step) {
  StepRequest request;
  request.step = step;
  request.seed = options.seed;
  request.scalars.lr = options.optimizer.lr;
  request.scalars.step = step;
  request.gradient_clipping = options.gradient_clipping;
  request.loss_reduction = options.loss_reduction;
  if (options.loss_scale) request.loss_scale = optim::first_state(*options.loss_scale).scale;
  return request;
}

}  // namespace

TrainOptions small_options(const std::string& folder, bool tied) {
  std::filesystem::create_directories(folder);
  TrainOptions options;
  options.model_config = folder + (tied ? "/tied.json" : "/untied.json");
  options.data_path = {folder + "/tokens.bin"};
  write_config(options.model_config, tied);
  write_tokens(options.data_path[0]);
  options.data_format = data::DataFormat::kTokens;
  options.max_seq_len = 16;
  options.batch = {4, 1, {}};
  options.optimizer.lr = 1e-2;
  options.optimizer.weight_decay = 0.1;
  options.gradient_clipping = 0.05;
  return options;
}

TrainOptions thin_options(const std::string& folder, bool tied, const ThinModel& model) {
  TrainOptions options = small_options(folder, tied);
  options.model_config = core::concat(folder, "/thin", tied, ".json");
  std::ofstream(options.model_config) << core::concat(
      R"({"model_type": "llama", "hidden_size": )", model.hidden, R"(, "num_attention_heads": )",
      model.heads, R"(, "num_key_value_heads": )", model.kv_heads, R"(, "intermediate_size": )",
      model.ffn, R"(, "vocab_size": 777, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
          "num_hidden_layers": )",
      model.layers, R"(, "tie_word_embeddings": )", tied ? "true" : "false", "}");
  options.batch = {8, 1, {}};
  options.sum_order = core::SumOrder::kCanonical;
  return options;
}

const pipeline::ScheduleRow& schedule_named(std::string_view name) {
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
    if (row.name == name) return row;
  }
  FM_CHECK(false, "there is no schedule ", name);
}

SmallSteps::SmallSteps(const TrainOptions& options, const model::Model& model, RankState& state,
                       const data::SampleSource* rows)
    : options_(options),
      state_(state),
      own_rows_(data::open_source({.paths = options.data_path,
                                   .format = options.data_format,
                                   .packing = options.packing,
                                   .seq_len = options.max_seq_len,
                                   .vocab = model.vocab})),
      stream_(rows == nullptr ? *own_rows_ : *rows, stream_layout(state, options)),
      runtime_(state, clock_) {}

StepResult SmallSteps::run(int step) {
  stream_.load_step((step - 1) * state_.plan.batch.train_batch);
  return runtime_.train_step(stream_, request_of(options_, step));
}

std::optional<StepResult> SmallSteps::validate(const StepRequest& request) {
  stream_.load_step((request.step - 1) * state_.plan.batch.train_batch);
  if (!std::exchange(ahead_, false)) return std::nullopt;
  return runtime_.validate_step(stream_, request);
}

std::optional<StepResult> SmallSteps::run_ahead(int step) {
  StepRequest request = request_of(options_, step);
  const std::optional<StepResult> before = validate(request);
  request.speculative = ahead_ = true;
  runtime_.train_step(stream_, request);
  return before;
}

std::array<StepResult, 2> SmallSteps::run_behind(int step) {
  const StepRequest request = request_of(options_, step);
  const StepResult before = validate(request).value();
  return {before, runtime_.train_step(stream_, request)};
}

namespace {

// All steps; every one but the last is speculative, where the options ask for it.
std::vector<StepResult> run_all(SmallSteps& steps, const TrainOptions& options, int count) {
  std::vector<StepResult> results;
  if (!options.post_validation || options.pipe_parallel_size == 1 || count == 1) {
    for (int step = 1; step <= count; ++step) results.push_back(steps.run(step));
    return results;
  }
  for (int step = 1; step < count; ++step) {
    if (const auto before = steps.run_ahead(step)) results.push_back(*before);
  }
  for (const StepResult& result : steps.run_behind(count)) results.push_back(result);
  return results;
}

}  // namespace

std::unique_ptr<core::Device> device_of(const TrainOptions& options, int rank) {
  if (options.device.kind == DeviceKind::kCpu) return nullptr;
  return std::make_unique<device::FakeDevice>(100 * options.device.seed +
                                              static_cast<std::uint64_t>(rank));
}

RunTrace run_small(TrainOptions options, int dp_size, int steps, const data::SampleSource* rows) {
  return run_small_on([&](int rank) { return device_of(options, rank); }, options, dp_size, steps,
                      rows);
}

namespace {

// What all ranks of a run have, and where its trace is put.
struct SharedRun {
  const TrainOptions& options;
  const MakeDevice& make;
  const MakeLink& link;
  int steps;
  const data::SampleSource* rows;
  std::mutex mutex;
  OnHosts out;
};

void add_weights(RankState& state, std::map<std::string, std::vector<float>>& weights) {
  for (const core::TensorSlice& slice : param_slices(state, Part::kOwned)) {
    std::int64_t numel = 1;
    for (const std::int64_t dim : slice.shape) numel *= dim;
    std::vector<float>& whole = weights[slice.name];
    whole.resize(static_cast<std::size_t>(numel));
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kRead);
      std::ranges::copy(fetched.floats(), whole.begin() + slice.first_of(row).count());
    }
  }
}

// Of the first flat parameter, in fp32.
std::vector<float> gathered_weights(RankState& state) {
  const core::Elements padded = state.layout.at(0).map.padded();
  std::vector<float> slot(static_cast<std::size_t>(padded.count()));
  state.params.changed();
  state.params.gather(0, slot.data()).finish();
  return slot;
}

void run_rank(SharedRun& run, comm::Communicator& world) {
  const TrainOptions& options = run.options;
  core::Ledger ledger;
  const std::unique_ptr<core::Device> device = run.make(world.rank());
  const model::OpenedModel opened =
      part_of(open_run_model(options), options, world.rank() % options.model_parallel_size);
  const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
  RankDevice on{device.get()};
  if (run.link != nullptr) on.link = run.link(world.rank(), *device);
  RankState state(options, plan, opened.model, world, ledger, on);
  fill_state(options, opened, state);
  SmallSteps trained(options, opened.model, state, run.rows);
  const core::Bytes before = world.sent();
  const std::vector<StepResult> results = run_all(trained, options, run.steps);
  trained.settle();
  const core::Bytes sent = world.sent() - before;
  std::vector<float> gathered;
  const bool gathers = plan.rules.plan.params == core::Home::kOneSliceEach;
  if (gathers && device == nullptr && options.element == core::DType::kF32) {
    gathered = gathered_weights(state);
  }
  const std::scoped_lock lock(run.mutex);
  run.out.sent[static_cast<std::size_t>(world.rank())] = sent;
  run.out.gathered[static_cast<std::size_t>(world.rank())] = std::move(gathered);
  RunTrace& trace = run.out.trace;
  add_weights(state, trace.weights);
  if (world.rank() != 0) return;
  for (const StepResult& result : results) {
    trace.losses.push_back(result.loss);
    trace.norms.push_back(result.grad_norm);
    trace.redone.push_back(result.redone);
  }
}

}  // namespace

RunTrace run_small_on(const MakeDevice& make, TrainOptions options, int dp_size, int steps,
                      const data::SampleSource* rows, const MakeLink& link) {
  const int ranks = options.pipe_parallel_size * options.model_parallel_size * dp_size *
                    options.sequence_parallel_size;
  const auto count = static_cast<std::size_t>(ranks);
  SharedRun run{options,
                make,
                link,
                steps,
                rows,
                {},
                {{}, std::vector<core::Bytes>(count), std::vector<std::vector<float>>(count)}};
  comm::run_ranks(
      ranks, [&](comm::Communicator& world) { run_rank(run, world); }, comm::kThreadsMs,
      options.shared_memory ? comm::Between::kSharedMemory : comm::Between::kMessages);
  return std::move(run.out.trace);
}

OnHosts run_small_on_hosts(const TrainOptions& options, const std::vector<int>& host_of,
                           int steps) {
  const MakeDevice make = [&](int rank) { return device_of(options, rank); };
  const MakeLink none = nullptr;
  SharedRun run{options,
                make,
                none,
                steps,
                nullptr,
                {},
                {{},
                 std::vector<core::Bytes>(host_of.size()),
                 std::vector<std::vector<float>>(host_of.size())}};
  comm::run_ranks_on_hosts(host_of, [&](comm::Communicator& world) { run_rank(run, world); });
  return std::move(run.out);
}

namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

void after_one_step(const TrainOptions& options,
                    const std::function<void(const RankState&)>& look) {
  comm::run_ranks(options.pipe_parallel_size, [&](comm::Communicator& world) {
    core::Ledger ledger;
    const model::OpenedModel opened = open_run_model(options);
    const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
    RankState state(options, plan, opened.model, world, ledger);
    fill_state(options, opened, state);
    SmallSteps steps(options, opened.model, state);
    steps.run(1);
    steps.settle();
    look(state);
  });
}

std::string first_difference(const RunTrace& a, const RunTrace& b) {
  for (std::size_t step = 0; step < a.losses.size(); ++step) {
    if (!same(a.losses[step], b.losses.at(step))) {
      return core::concat("loss of step ", step + 1, ": ", a.losses[step], " and ", b.losses[step]);
    }
    if (!same(a.norms[step], b.norms.at(step))) {
      return core::concat("norm of step ", step + 1, ": ", a.norms[step], " and ", b.norms[step]);
    }
  }
  if (a.weights.size() != b.weights.size()) return "different tensors";
  for (const auto& [name, values] : a.weights) {
    const std::vector<float>& other = b.weights.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != other.at(i)) {
        return core::concat(name, " element ", i, ": ", values[i], " and ", other[i]);
      }
    }
  }
  return "";
}

}  // namespace fm::engine

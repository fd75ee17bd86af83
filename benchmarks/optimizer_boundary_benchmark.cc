// The optimizer boundary: reduction of a finished gradient, norm, clipping, AdamW and publication
// of the parameters, through the classes that the engine uses (zero/), ZeRO 2 or 3 on one host:
//
//   mpirun -np 2 --bind-to core build/benchmarks/optimizer_boundary_benchmark
//
// Nanoseconds per parameter of the model, and beside them the memory bound: what a rank must read,
// at the rate at which every rank reads its memory in the same run. With clipping a rank reads, per
// parameter of its slice, the p gradients, and later sum, parameter and two moments: (4p + 16) / p
// bytes per parameter of the model. Without clipping one pass would do: (4p + 12) / p. (We make two
// all the same: a gradient that is not finite must change nothing.)
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "benchmarks/read_memory.h"
#include "comm/meet/world.h"
#include "comm/words.h"
#include "core/check.h"
#include "core/process.h"
#include "launch/engines.h"
#include "zero/global_norm.h"
#include "zero/optimizer_shard.h"

namespace fm {
namespace {

using Clock = std::chrono::steady_clock;
using core::Elements;

constexpr int kRounds = 15;
constexpr double kLargeClip = 1e30;  // nothing is clipped
constexpr double kSmallClip = 1e-3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double slowest(double mine) {
  MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return mine;
}

// Seconds between two points that all ranks reach together.
class Stopwatch {
 public:
  template <class Work>
  void add(const Work& work) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = Clock::now();
    work();
    spent_ += std::chrono::duration<double>(Clock::now() - begin).count();
  }
  double seconds() const { return slowest(spent_); }

 private:
  double spent_ = 0.0;
};

// Bytes per second at which the slowest rank reads memory while all others do the same.
double read_rate(const std::vector<float>& memory) {
  std::vector<double> rates;
  float sink = 0.0F;
  for (int round = 0; round < 5; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = Clock::now();
    sink += read_memory(memory.data(), std::ssize(memory));
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    rates.push_back(static_cast<double>(memory.size() * sizeof(float)) / spent);
  }
  if (sink == 1.0F) std::puts("");
  return -slowest(-median(rates));
}

std::vector<int> all_of(const comm::Communicator& dp) {
  std::vector<int> all(static_cast<std::size_t>(dp.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The state of one rank, for units of the given sizes.
class Boundary {
 public:
  Boundary(const std::vector<std::int64_t>& units, comm::Communicator& dp)
      : tables_(make_tables(units)),
        layout_(make_layout(tables_, dp)),
        data_(dp.split(all_of(dp))),
        pipe_(dp.split(std::vector<int>{dp.rank()})),
        params_(layout_, ledger_, dp),
        grads_(layout_, ledger_, dp),
        optimizer_(layout_, ledger_, {.weight_decay = 0.1}),
        norm_(layout_, data_, pipe_, {{0, 0, layout_.count(), layout_.count() * dp.size()}}) {}

  struct Seconds {
    double reduction = 0.0;
    double all = 0.0;
  };
  // Backward writes every gradient, which is not timed; everything after that is.
  Seconds step(double clip) {
    Stopwatch watch;
    grads_.begin_step();
    for (int flat_param = layout_.count() - 1; flat_param >= 0; --flat_param) {
      write_gradient(flat_param);
      watch.add([&] { grads_.reduce({}, flat_param, 0); });
    }
    const double reduction = watch.seconds();
    watch.add([&] { update(clip); });
    return {reduction, watch.seconds()};
  }

 private:
  static std::vector<core::ParamTable> make_tables(const std::vector<std::int64_t>& units) {
    std::vector<core::ParamTable> tables;
    for (const std::int64_t elements : units) {
      tables.emplace_back(
          std::vector<core::ParamEntry>{{"matrix", {elements}, core::ParamKind::kMatrix, {}, {}}},
          core::NoDecay{});
    }
    return tables;
  }

  static zero::Layout make_layout(const std::vector<core::ParamTable>& tables,
                                  comm::Communicator& dp) {
    zero::LayoutInput input;
    const auto units = static_cast<int>(tables.size());
    input.units = pipeline::Placement({{.units = {0, units}, .pipe_rank = 0}}, 1);
    input.rules.plan = core::plan_of(2, core::SumOrder::kFast, core::ParamSharing::kOneHost);
    input.rules.dp_size = dp.size();
    for (const core::ParamTable& table : tables) input.tables.push_back(&table);
    return zero::make_layout(input, 0, dp.rank());
  }

  void write_gradient(int flat_param) {
    const zero::GradStore::Destination to = grads_.destination({}, flat_param, 0);
    const std::int64_t count = layout_.at(flat_param).table->elements().count();
    for (std::int64_t i = 0; i < count; ++i) {
      to.whole[i] = 1e-3F * static_cast<float>(i % 1000 - 500 + layout_.dp_rank);
    }
  }

  void update(double clip) {
    const double norm = std::sqrt(norm_.squared({}, grads_));
    FM_CHECK(std::isfinite(norm), "norm ", norm);
    const auto scale = static_cast<float>(std::min(1.0, clip / (norm + 1e-6)));
    const optim::UpdateScalars scalars = {.lr = 1e-4, .step = ++steps_, .grad_scale = scale};
    for (int flat_param = 0; flat_param < layout_.count(); ++flat_param) {
      optimizer_.update(work_, flat_param, scalars, params_, grads_);
      params_.publish(flat_param).finish();
    }
  }

  core::Work work_;
  core::Ledger ledger_;
  std::vector<core::ParamTable> tables_;
  zero::Layout layout_;
  comm::Words data_, pipe_;
  zero::ParamStore params_;
  zero::GradStore grads_;
  zero::OptimizerShard optimizer_;
  zero::GlobalNorm norm_;
  std::int64_t steps_ = 0;
};

void measure(const char* name, const std::vector<std::int64_t>& units, comm::Communicator& world) {
  Boundary boundary(units, world);
  const std::vector<float> memory(std::size_t{64} << 20, 1.0F);
  const auto parameters =
      static_cast<double>(std::accumulate(units.begin(), units.end(), std::int64_t{0}));
  const int p = world.size();
  for (const bool clips : {true, false}) {
    const double bytes = (4.0 * p + (clips ? 16.0 : 12.0)) / p;
    std::vector<double> ours;
    std::vector<double> reductions;
    std::vector<double> bounds;
    std::vector<double> ratios;
    for (int round = 0; round < kRounds; ++round) {
      bounds.push_back(bytes / read_rate(memory) * 1e9);
      const auto spent = boundary.step(clips ? kSmallClip : kLargeClip);
      ours.push_back(spent.all / parameters * 1e9);
      reductions.push_back(spent.reduction / parameters * 1e9);
      ratios.push_back(ours.back() / bounds.back());
    }
    if (world.rank() != 0) continue;
    std::printf("%-18s %10.1f %-10s %10.3f %10.3f %10.3f %8.2f\n", name, parameters / 1e6,
                clips ? "active" : "none", median(ours), median(reductions), median(bounds),
                median(ratios));
    std::fflush(stdout);
  }
}

void run(comm::Communicator& world) {
  FM_USER_CHECK(world.common_memory() != nullptr && world.size() > 1,
                "several ranks on one host are needed; start 2 with mpirun (ranks=", world.size(),
                ")");
  if (world.rank() == 0) {
    std::printf("%s\n%-18s %10s %-10s %10s %10s %10s %8s\n", world.describe().c_str(), "parameters",
                "millions", "clipping", "ns each", "reducing", "bound ns", "ratio");
  }
  measure("one matrix", {33'554'432}, world);
  // W2: embedding, 8 blocks, final norm and head.
  std::vector<std::int64_t> units(10, 2 * 512 * 512 + 2 * 256 * 512 + 3 * 1376 * 512 + 2 * 512);
  units.front() = 32000 * 512;
  units.back() = 32000 * 512 + 512;
  measure("Llama of 10 units", units, world);
}

}  // namespace
}  // namespace fm

int main() {
  const auto world =
      fm::comm::connect(fm::launch::detect_launch(fm::core::process_environment()), {});
  fm::run(*world);
  fm::comm::shut_down();
  return 0;
}

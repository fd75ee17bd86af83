// Collectives of fmengine beside OpenMPI's, in the same processes, taken in turns:
//
//   mpirun -np 2 --bind-to core build/benchmarks/collectives_benchmark
//
// Per size and verb: median time of ours and of OpenMPI over paired rounds, their ratio (median of
// the rounds' ratios), and the share of the memory bound that ours reaches: bytes that a rank must
// read, at the rate at which it reads its memory in the same run.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <vector>

#include "benchmarks/read_memory.h"
#include "comm/meet/world.h"
#include "core/buffer.h"
#include "core/process.h"
#include "launch/engines.h"

namespace fm {
namespace {

using Clock = std::chrono::steady_clock;
using core::DType;
using core::Elements;

constexpr int kRounds = 9;
constexpr double kSecondsPerRound = 0.05;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Buffers of one size: two inputs so that every call really reads.
struct Case {
  comm::Communicator& world;
  float* send;     // whole
  float* receive;  // one part
  std::int64_t whole;
  std::int64_t part() const { return whole / world.size(); }
};

struct Verb {
  const char* name;
  std::function<void(const Case&)> ours;
  std::function<void(const Case&)> theirs;
  // Lines fetched, of the whole, per rank; those that are written without being read included.
  double read_bytes_per_float;
};

// As the norm's squares, without their arithmetic.
struct Onlooker : comm::SumVisitor {
  void visit(Elements, Elements) override {}
};

int count_of(std::int64_t elements) { return static_cast<int>(elements); }

void mpi_reduce_scatter(const Case& at) {
  MPI_Reduce_scatter_block(at.send, at.receive, count_of(at.part()), MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
}

std::vector<Verb> verbs() {
  return {
      {"all_reduce",
       [](const Case& at) {
         at.world.all_reduce({at.send, Elements(at.whole), DType::kF32}).finish();
       },
       [](const Case& at) {
         MPI_Allreduce(MPI_IN_PLACE, at.send, count_of(at.whole), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
       },
       4.0},
      {"reduce_scatter",
       [](const Case& at) {
         at.world
             .reduce_scatter({at.send, Elements(at.whole), DType::kF32},
                             {at.receive, Elements(at.part()), DType::kF32})
             .finish();
       },
       mpi_reduce_scatter, 4.0},
      // What ZeRO 1 to 3 do on one host: the sum lies where this rank's part was, and is looked at.
      {"reduce_in_place",
       [](const Case& at) {
         Onlooker onlooker;
         at.world
             .reduce_scatter_to(
                 {at.send, Elements(at.whole), DType::kF32},
                 {at.send + at.world.rank() * at.part(), Elements(at.part()), DType::kF32},
                 &onlooker)
             .finish();
       },
       mpi_reduce_scatter, 4.0},
      {"all_gather",
       [](const Case& at) {
         at.world
             .all_gather({at.send, Elements(at.part()), DType::kF32},
                         {at.receive, Elements(at.whole), DType::kF32})
             .finish();
       },
       [](const Case& at) {
         MPI_Allgather(at.send, count_of(at.part()), MPI_FLOAT, at.receive, count_of(at.part()),
                       MPI_FLOAT, MPI_COMM_WORLD);
       },
       8.0},
      {"broadcast",
       [](const Case& at) {
         at.world.broadcast({at.send, Elements(at.whole), DType::kF32}, 0).finish();
       },
       [](const Case& at) { MPI_Bcast(at.send, count_of(at.whole), MPI_FLOAT, 0, MPI_COMM_WORLD); },
       8.0},
      {"barrier", [](const Case& at) { at.world.barrier().finish(); },
       [](const Case&) { MPI_Barrier(MPI_COMM_WORLD); }, 0.0},
  };
}

double seconds_of(const std::function<void(const Case&)>& call, const Case& at, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) call(at);
  double spent = std::chrono::duration<double>(Clock::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &spent, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return spent;
}

// Bytes per second at which one rank reads memory while all others do the same.
double read_rate(const Case& at) {
  std::vector<double> rates;
  float sink = 0.0F;
  for (int round = 0; round < 5; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = Clock::now();
    sink += read_memory(at.send, at.whole);
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    rates.push_back(static_cast<double>(at.whole) * sizeof(float) / spent);
  }
  if (sink == 1.0F) std::puts("");
  double rate = *std::max_element(rates.begin(), rates.end());
  MPI_Allreduce(MPI_IN_PLACE, &rate, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return rate;
}

void compare(const Verb& verb, const Case& at, double rate) {
  std::fill_n(at.send, at.whole, 0.0F);  // sums stay finite however often they are repeated
  const double once = std::max(seconds_of(verb.ours, at, 1), seconds_of(verb.theirs, at, 1));
  const int calls = std::clamp(static_cast<int>(kSecondsPerRound / once), 1, 20'000);
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    const bool ours_first = round % 2 == 0;
    if (ours_first) ours.push_back(seconds_of(verb.ours, at, calls));
    theirs.push_back(seconds_of(verb.theirs, at, calls));
    if (!ours_first) ours.push_back(seconds_of(verb.ours, at, calls));
    ratios.push_back(theirs.back() / ours.back());
  }
  if (at.world.rank() != 0) return;
  const double bound = static_cast<double>(at.whole) * verb.read_bytes_per_float / rate;
  std::printf("%-16s %12lld %12.2f %12.2f %8.2f %8.0f%%\n", verb.name,
              static_cast<long long>(at.whole * 4), median(ours) * 1e6, median(theirs) * 1e6,
              median(ratios), 100.0 * bound / median(ours));
}

void run(comm::Communicator& world) {
  constexpr std::int64_t kLargest = std::int64_t{32} << 20;  // floats: 128 MiB
  core::Ledger ledger;
  const core::Buffer send =
      core::make_f32(ledger, core::Account::kScratch, Elements(kLargest), world.memory());
  const core::Buffer receive =
      core::make_f32(ledger, core::Account::kScratch, Elements(kLargest), world.memory());
  const double rate = read_rate({world, send.f32(), receive.f32(), kLargest});
  if (world.rank() == 0) {
    std::printf("%s; a rank reads %.1f GB/s\n", world.describe().c_str(), rate / 1e9);
    std::printf("%-16s %12s %12s %12s %8s %9s\n", "verb", "bytes", "ours us", "OpenMPI us", "ratio",
                "of bound");
  }
  for (const Verb& verb : verbs()) {
    for (const std::int64_t kib : {1, 16, 256, 4096, 131072}) {
      if (verb.read_bytes_per_float == 0.0 && kib > 1) continue;
      compare(verb, {world, send.f32(), receive.f32(), kib * 256}, rate);
    }
  }
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

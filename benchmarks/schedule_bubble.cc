// The bubble of every schedule, measured with units that sleep, beside the one that is predicted:
//
//   mpirun -np 4 --oversubscribe build/benchmarks/schedule_bubble [micro-batches [schedule]]
//
// Forward, backward-input and backward-weight of one rank's share take 20 ms each; messages are as
// large as a hidden state of 16 KiB. Ranks are processes, messages and their order are those of a
// run. Prints the makespan in ms, and the bubble of the median of three steps; then the ms of a
// step between others that meet for the norm, and that end before it is known (--post_validation).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/meet/world.h"
#include "core/process.h"
#include "launch/engines.h"
#include "pipeline/executor.h"
#include "pipeline/passes.h"
#include "pipeline/post_validation.h"
#include "pipeline/schedule_study.h"
#include "pipeline/schedules/schedules.h"

namespace fm {
namespace {

using Clock = std::chrono::steady_clock;
using pipeline::Instruction;
using pipeline::Op;

constexpr double kMsOfPhase = 20.0;
constexpr int kSteps = 3;
constexpr int kFloats = 4096;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Sleeps where a unit would compute, and sends and receives as engine::StepRuntime does.
class SleepingStep : public pipeline::StepHandler {
 public:
  SleepingStep(const pipeline::Placement& units, comm::Communicator& world, int chunks)
      : units_(units), world_(world), phase_ms_(kMsOfPhase / chunks), values_(kFloats) {}

  void run(const Instruction& at) override {
    if (at.op == Op::kSendAct) return send(units_.owner_of(at.unit), forward_);
    if (at.op == Op::kSendGrad) return send(units_.owner_of(at.unit), backward_);
    if (at.op == Op::kRecvAct) return receive(at, units_.owner_of(at.unit - 1));
    if (at.op == Op::kRecvGrad) return receive(at, units_.owner_of(at.unit + 1));
    if (at.op == Op::kNorm) return world_.all_reduce(norm()).finish();
    if (at.op == Op::kRecvNorm) return world_.receive(norm(), world_.rank() - 1).finish();
    if (at.op == Op::kSendNorm) return send_norm(world_.rank() + 1, forward_norm_);
    if (at.op == Op::kValidate) return validate();
    compute(at);
  }
  void settle() {
    for (auto* leaving : {&forward_, &backward_}) {
      for (comm::Pending& sent : *leaving) sent.finish();
      leaving->clear();
    }
    for (comm::Pending* each : {&forward_norm_, &backward_norm_}) {
      each->finish();
    }
  }
  double busy_ms() const { return busy_ms_; }

 private:
  void send(int to, std::deque<comm::Pending>& leaving) {
    if (leaving.size() == pipeline::kMostLeaving) {
      leaving.front().finish();
      leaving.pop_front();
    }
    leaving.push_back(
        world_.send({values_.data(), core::Elements(kFloats), core::DType::kF32}, to));
  }
  comm::Span norm() { return {&norm_, core::Elements(1), core::DType::kF64}; }
  void send_norm(int to, comm::Pending& before) {
    before.finish();
    before = world_.send(norm(), to);
  }
  void validate() {
    if (!std::exchange(ended_ahead_, true)) return;
    if (world_.rank() + 1 < world_.size()) world_.receive(norm(), world_.rank() + 1).finish();
    if (world_.rank() > 0) send_norm(world_.rank() - 1, backward_norm_);
  }
  void receive(const Instruction& at, int from) {
    Arriving& arriving = arriving_[at];
    arriving.values.resize(kFloats);
    arriving.pending =
        world_.receive({arriving.values.data(), core::Elements(kFloats), core::DType::kF32}, from);
  }
  void compute(const Instruction& at) {
    if (const auto taken = units_.taken_by(at); taken && units_.crosses(*taken)) {
      const auto arriving = arriving_.find(taken->receive());
      arriving->second.pending.finish();
      arriving_.erase(arriving);
    }
    const bool takes_time = pipeline::row_of(at.op).forwards > 0.0 && units_.is_block(at.unit);
    if (!takes_time) return;
    const Clock::time_point start = Clock::now();
    std::this_thread::sleep_until(start + std::chrono::duration<double, std::milli>(phase_ms_));
    busy_ms_ += phase_ms_;
  }

  struct Arriving {
    std::vector<float> values;
    comm::Pending pending;
  };
  const pipeline::Placement& units_;
  comm::Communicator& world_;
  double phase_ms_;
  std::vector<float> values_;
  std::map<Instruction, Arriving> arriving_;
  std::deque<comm::Pending> forward_, backward_;
  comm::Pending forward_norm_, backward_norm_;
  double norm_ = 0.0;
  bool ended_ahead_ = false;  // the step before
  double busy_ms_ = 0.0;
};

// Makespan and bubble of one step, over all ranks.
std::pair<double, double> measure(const pipeline::StudiedPrograms& programs,
                                  comm::Communicator& world, int chunks) {
  SleepingStep step(programs.units, world, chunks);
  world.barrier().finish();
  const Clock::time_point start = Clock::now();
  pipeline::execute(programs.lowered[static_cast<std::size_t>(world.rank())], step);
  const double mine[2] = {ms_since(start), step.busy_ms()};
  step.settle();
  std::vector<double> all(2 * static_cast<std::size_t>(world.size()));
  world
      .all_gather({mine, core::Elements(2), core::DType::kF64},
                  {all.data(), core::Elements(2 * world.size()), core::DType::kF64})
      .finish();
  double makespan = 0.0;
  double busy = 0.0;
  for (std::size_t rank = 0; rank < all.size(); rank += 2) {
    makespan = std::max(makespan, all[rank]);
    busy += all[rank + 1];
  }
  return {makespan, 1.0 - busy / (makespan * world.size())};
}

// With the norm before the report: all ranks meet for it, or it comes in parts.
struct Following {
  pipeline::Placement units;
  std::vector<pipeline::Program> meeting, ahead;
};
Following programs_of_steps(const std::vector<pipeline::Program>& scheduled,
                            const pipeline::PipeShape& shape) {
  Following out{pipeline::split_evenly(shape.chunk_count(), shape, false), {}, {}};
  std::vector<pipeline::Program> expanded;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    expanded.push_back(
        pipeline::expand_units(scheduled[static_cast<std::size_t>(rank)], out.units, rank));
  }
  const auto with_norm = [&](const std::vector<pipeline::Program>& programs) {
    std::vector<pipeline::Program> lowered = pipeline::insert_p2p(programs, out.units);
    for (pipeline::Program& each : lowered) each.insert(each.end() - 1, {Op::kNorm, -1, -1});
    return lowered;
  };
  out.meeting = with_norm(expanded);
  out.ahead =
      pipeline::with_norm_in_parts(with_norm(pipeline::insert_validation(expanded, out.units)));
  return out;
}

double ms_of_steps(const std::vector<pipeline::Program>& programs, const pipeline::Placement& units,
                   comm::Communicator& world, int chunks, int steps) {
  SleepingStep step(units, world, chunks);
  world.barrier().finish();
  const Clock::time_point start = Clock::now();
  for (int nth = 0; nth < steps; ++nth) {
    pipeline::execute(programs[static_cast<std::size_t>(world.rank())], step);
  }
  step.settle();
  world.barrier().finish();
  return ms_since(start);
}

double ms_between(const std::vector<pipeline::Program>& programs, const pipeline::Placement& units,
                  comm::Communicator& world, int chunks) {
  constexpr int kFew = 1;
  constexpr int kMany = 5;
  const double few = ms_of_steps(programs, units, world, chunks, kFew);
  return (ms_of_steps(programs, units, world, chunks, kMany) - few) / (kMany - kFew);
}

// `only`: a schedule, or "" for all of them.
void run(comm::Communicator& world, int micros, std::string_view only) {
  if (world.rank() == 0) {
    std::printf("%d pipe ranks, %d micro-batches\n%-18s %12s %12s %10s %10s %10s %10s\n",
                world.size(), micros, "schedule", "predicted ms", "measured ms", "predicted",
                "measured", "meeting ms", "ahead ms");
  }
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
    const pipeline::PipeShape shape{
        .pipe_ranks = world.size(), .micros = micros, .chunks = row.chunks, .order = row.order};
    if (!only.empty() && row.name != only) continue;
    if (row.constraint.holds != nullptr && !row.constraint.holds(shape)) continue;
    const auto scheduled = pipeline::make_programs(row, shape);
    const pipeline::StudiedPrograms programs = pipeline::lower_for_study(scheduled, shape);
    const pipeline::Simulation predicted = pipeline::simulate_schedule(scheduled, shape);
    std::vector<std::pair<double, double>> steps;
    for (int step = 0; step < kSteps; ++step) {
      steps.push_back(measure(programs, world, row.chunks));
    }
    std::ranges::sort(steps);
    const auto& [makespan, bubble] = steps[kSteps / 2];
    const Following following = programs_of_steps(scheduled, shape);
    const double meeting = ms_between(following.meeting, following.units, world, row.chunks);
    const double ahead = ms_between(following.ahead, following.units, world, row.chunks);
    if (world.rank() != 0) continue;
    std::printf("%-18s %12.1f %12.1f %10.4f %10.4f %10.1f %10.1f\n", std::string(row.name).c_str(),
                predicted.makespan * kMsOfPhase, makespan, predicted.bubble(), bubble, meeting,
                ahead);
  }
}

}  // namespace
}  // namespace fm

int main(int count, char** words) {
  const auto world =
      fm::comm::connect(fm::launch::detect_launch(fm::core::process_environment()), {});
  fm::run(*world, count > 1 ? std::atoi(words[1]) : 8, count > 2 ? words[2] : "");
  fm::comm::shut_down();
  return 0;
}

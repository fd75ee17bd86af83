// What all ranks tell each other behind a step, in one all_reduce: signals, whether a save that is
// under way may go on, whether their collectives are the same, and which of them is slow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/blackbox/black_box.h"
#include "engine/run/signals.h"

namespace fm::engine {

// A rank whose own time in every one of the last kSlowSteps steps was kSlowTimes the median of the
// others or more. A rank's own time is what it does not spend inside verbs.
struct SlowRank {
  int world_rank = 0;
  std::string host = {};
  double seconds = 0.0;  // its fastest step
  double median = 0.0;   // of the others' fastest steps
};
inline constexpr int kSlowSteps = 10;
inline constexpr double kSlowTimes = 1.5;

// "rank 3 (host b) takes 2.1 x the median of the others (412 ms, 196 ms)"
std::string text_of(const SlowRank& slow);

// Its line in metrics.jsonl.
std::string json_of(const SlowRank& slow, std::int64_t step);

// The slowest such rank. kind_of: by rank; those of a kind do the same work, so a rank is compared
// with them, or with all where it is the only one. Differences of less than 10 ms a step are noise.
std::optional<SlowRank> slowest_of(std::span<const std::int64_t> own_ns,
                                   std::span<const int> kind_of);

// Invariant: all ranks make the same calls in the same order.
// Thread:    the rank's thread; construction and tell() are collective over the world.
// Lifetime:  world and box outlive it.
class StepExchange {
 public:
  // `box` may be null on all ranks: nothing is compared, and nobody is slow.
  StepExchange(comm::Communicator& world, core::BlackBox* box, std::vector<int> kind_of);

  // A step took so long, of which this rank was inside verbs for so long.
  void add_step(std::int64_t whole_ns, std::int64_t waited_ns);

  struct Told {
    SignalInbox::Requests asked;
    bool all_ready = false;        // every rank said that it is
    std::optional<SlowRank> slow;  // on rank 0; the same rank once in 100 steps
  };
  // Throws MachineError (22) on all ranks, naming the first collective that differs.
  // `ready`: to meet the others in a save (checkpoint::SaveCourse).
  Told tell(const SignalInbox::Requests& mine, bool ready, std::int64_t step);

 private:
  void compare_chains(std::int64_t sum);
  std::optional<SlowRank> see_times(std::span<const std::int64_t> own_ns, std::int64_t step);

  comm::Communicator& world_;
  core::BlackBox* const box_;
  std::vector<int> kind_of_;
  std::vector<std::string> hosts_;
  std::vector<std::int64_t> numbers_;
  std::int64_t fastest_ns_ = 0;
  int steps_ = 0;
  std::vector<std::int64_t> told_of_;  // by rank: the step of the last note; 0: none
};

}  // namespace fm::engine

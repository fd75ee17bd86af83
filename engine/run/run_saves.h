// When a run saves what it has learned, and to which checkpoint it may go back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/output_lock.h"
#include "checkpoint/save_checkpoint.h"
#include "engine/shown/run_log.h"
#include "engine/state/persistence.h"
#include "engine/state/save_copy.h"
#include "offload/stored_numbers.h"

namespace fm::engine {

enum class Must : std::uint8_t { kSucceed, kMayFail };

// A checkpoint is proven when a later step of this start was not skipped: its weights gave a finite
// loss. What is saved after the last proven one may already be broken.
//
// A save that may fail is written while the next steps run, where the plan has room for that: from
// a copy of what is in memory, and from slots that steps leave alone of what sleeps. go_on() takes
// it from act to act. At most one is under way.
//
// Invariant: nothing is saved or pruned while the last step was skipped; the newest proven
//            checkpoint, and those from before the first skip, outlive --keep_last.
// Thread:    the rank's thread; save, go_on, settle and ends_within are collective.
// Lifetime:  what the constructor is given outlives it. The destructor abandons what is under way.
class RunSaves {
 public:
  RunSaves(const TrainOptions& options, RankState& state, RunLog& log)
      : options_(options), state_(state), log_(log) {}

  // `lock` of rank 0, null elsewhere; `resumed` is the step of the checkpoint that was loaded, -1
  // for a fresh start.
  void begin(checkpoint::OutputLock* lock, std::int64_t resumed);
  // Before the step is counted: when it was skipped, settles.
  void before_step(bool skipped);
  // After every step; `progress` counts it.
  void after_step(ProgressState& progress);
  // Throws MachineError 23 when the state is not finite, 26 when it must succeed and does not, and
  // at the third failure in a row. Waits for the save before it.
  void save(const ProgressState& progress, Must must);
  // This rank may go on with the save that is under way.
  bool ready() const { return course_ && course_->ready(); }
  // All ranks are ready. Throws as save() does.
  void go_on();
  // Waits until no save is under way. Throws as save() does.
  void settle();
  bool under_way() const { return course_.has_value(); }
  // The save under way is that of this step.
  bool writes(std::int64_t step) const { return under_way() && course_step_ == step; }
  // Collective, behind a signal: whether the save of this step would end in the time that this rank
  // has left (nothing: as long as it takes), and every other. True where nobody knows how long one
  // takes.
  bool ends_within(std::int64_t step, const std::optional<double>& seconds_left) const;
  // How long a save takes that steps wait for, as the last one of this start or of the checkpoint
  // that it resumed did; at most as long as one beside steps; 0: not known.
  double save_seconds() const { return 1e-3 * static_cast<double>(save_ms_); }
  // The time that steps have waited for saves since this was asked last.
  double take_stall_ms() { return std::exchange(stall_ms_, 0.0); }
  // The step of the newest checkpoint is this one.
  bool holds(std::int64_t step) const { return saved_ == step; }
  std::int64_t saved_step() const { return saved_ < 0 ? 0 : saved_; }
  std::string newest() const { return saved_ < 0 ? "" : path_of(saved_); }
  // "go back with --resume output/global_step20", for a run whose numbers are broken.
  std::string way_back() const;

 private:
  enum class Beside : std::uint8_t { kNothing, kSteps };

  std::vector<checkpoint::FileSlice> slices(Beside beside);
  void begin_course(const ProgressState& progress, Must must);
  void advance();
  void finish_course();
  void see_durable();
  void end_course();
  void learn_time(double seconds);
  void check_finite_in(const checkpoint::SaveResult& result) const;
  void say_waited(std::int64_t before, std::int64_t next, double ms);
  void fail(const std::string& problem);
  checkpoint::SaveRequest request_of(const ProgressState& progress,
                                     std::vector<checkpoint::FileSlice> mine) const;
  void renew_lock();
  std::string path_of(std::int64_t step) const;

  const TrainOptions& options_;
  RankState& state_;
  RunLog& log_;
  checkpoint::OutputLock* lock_ = nullptr;
  std::int64_t resumed_ = -1;    // where this start began
  std::int64_t saved_ = -1;      // newest checkpoint
  std::int64_t proven_ = -1;     // newest proven one
  std::int64_t last_good_ = -1;  // newest step that was not skipped
  int failed_ = 0;               // saves since the last one that is durable
  std::int64_t save_ms_ = 0;     // rank 0's counts
  std::int64_t known_ms_ = 0;    // before the one that was begun last
  std::int64_t aside_ms_ = 0;    // of the last one beside steps
  double stall_ms_ = 0.0;
  Must must_ = Must::kMayFail;    // the save that was begun last
  std::optional<SaveCopy> copy_;  // of what is under way
  std::optional<offload::PartRoom> part_room_;
  std::optional<checkpoint::SaveCourse> course_;
  std::int64_t course_step_ = -1;
  bool aside_ = false;  // it runs beside steps
  std::chrono::steady_clock::time_point course_began_;
};

}  // namespace fm::engine

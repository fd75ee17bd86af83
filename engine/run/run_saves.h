// When a run saves what it has learned, and to which checkpoint it may go back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/output_lock.h"
#include "engine/shown/run_log.h"
#include "engine/state/persistence.h"

namespace fm::engine {

enum class Must : std::uint8_t { kSucceed, kMayFail };

// A checkpoint is proven when a later step of this start was not skipped: its weights gave a finite
// loss. What is saved after the last proven one may already be broken.
//
// Invariant: nothing is saved or pruned while the last step was skipped; the newest proven
//            checkpoint, and those from before the first skip, outlive --keep_last.
// Thread:    the rank's thread; save and check are collective.
// Lifetime:  what the constructor is given outlives it.
class RunSaves {
 public:
  RunSaves(const TrainOptions& options, RankState& state, RunLog& log)
      : options_(options), state_(state), log_(log) {}

  // `lock` of rank 0, null elsewhere; `resumed` is the step of the checkpoint that was loaded, -1
  // for a fresh start.
  void begin(checkpoint::OutputLock* lock, std::int64_t resumed);
  // After every step; `progress` counts it.
  void after_step(ProgressState& progress);
  // Throws MachineError 23 when the state is not finite, 26 when it must succeed and does not, and
  // at the third failure in a row.
  void save(const ProgressState& progress, Must must);
  // Collective, behind a signal: whether a save would end in the time that this rank has left
  // (nothing: as long as it takes), and every other. True where nobody knows how long one takes.
  bool ends_within(const std::optional<double>& seconds_left) const;
  // How long the last save took, of this start or of the checkpoint that it resumed; 0: not known.
  double save_seconds() const { return 1e-3 * static_cast<double>(save_ms_); }
  // The step of the newest checkpoint is this one.
  bool holds(std::int64_t step) const { return saved_ == step; }
  std::int64_t saved_step() const { return saved_ < 0 ? 0 : saved_; }
  std::string newest() const { return saved_ < 0 ? "" : path_of(saved_); }
  // "go back with --resume output/global_step20", for a run whose numbers are broken.
  std::string way_back() const;

 private:
  std::string write(const ProgressState& progress);
  void renew_lock();
  std::string path_of(std::int64_t step) const;

  const TrainOptions& options_;
  RankState& state_;
  RunLog& log_;
  checkpoint::OutputLock* lock_ = nullptr;
  std::int64_t resumed_ = -1;  // where this start began
  std::int64_t saved_ = -1;    // newest checkpoint
  std::int64_t proven_ = -1;   // newest proven one
  int failed_ = 0;             // saves since the last one that is durable
  std::int64_t save_ms_ = 0;   // rank 0's counts
};

}  // namespace fm::engine

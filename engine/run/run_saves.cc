#include "engine/run/run_saves.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/lineage.h"
#include "comm/agree.h"
#include "core/check.h"

namespace fm::engine {

using core::ExitCode;

void RunSaves::begin(checkpoint::OutputLock* lock, std::int64_t resumed) {
  lock_ = lock;
  saved_ = resumed_ = resumed;
  save_ms_ = state_.save_ms;
  const bool own = resumed >= 0 && options_.resume != checkpoint::Resume::kPath;
  if (lock == nullptr || !own) return;
  const std::string problem = checkpoint::name_latest(options_.output_dir, resumed);
  if (!problem.empty()) log_.warn("`latest` still names an older checkpoint: " + problem);
}

void RunSaves::after_step(ProgressState& progress) {
  if (progress.consecutive_skips == 0) {
    proven_ = saved_;
  } else if (progress.spared.empty() && saved_ >= 0) {
    progress.spared = {saved_};
    if (proven_ >= 0 && proven_ != saved_) progress.spared.push_back(proven_);
  }
}

void RunSaves::save(const ProgressState& progress, Must must) {
  if (options_.dry_run || holds(progress.step)) return;
  if (progress.consecutive_skips > 0) {
    log_.warn(core::concat(checkpoint::tag_of_step(progress.step),
                           " is not saved, because that step was skipped; ", way_back()));
    return;
  }
  check_finite(state_, options_.optimizer, way_back());
  state_.fence.check();
  const auto start = std::chrono::steady_clock::now();
  std::string problem = comm::text_of_rank0(state_.world, lock_ == nullptr ? "" : lock_->moved());
  if (problem.empty()) problem = write(progress);
  if (problem.empty()) {
    saved_ = progress.step;
    failed_ = 0;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    save_ms_ = 1 + static_cast<std::int64_t>(took.count());
    log_.say("saved " + path_of(saved_));
    return;
  }
  FM_MACHINE_CHECK(must == Must::kMayFail, ExitCode::kStorageFailed, problem);
  FM_MACHINE_CHECK(
      ++failed_ < options_.max_failed_saves, ExitCode::kStorageFailed,
      "checkpoints must reach the disk, or a long run works for nothing; make space or repair "
      "the output directory, then start the same command again (",
      failed_, " saves failed in a row, the newest checkpoint is ",
      saved_ < 0 ? "none" : core::concat("of step ", saved_), "; the last one: ", problem, ")");
  log_.warn(problem);
}

bool RunSaves::ends_within(const std::optional<double>& seconds_left) const {
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
  const auto mine = seconds_left ? static_cast<std::int64_t>(1e3 * *seconds_left) : kEndless;
  const std::int64_t left = std::ranges::min(comm::gather_numbers(state_.world, mine));
  return comm::gather_numbers(state_.world, save_ms_)[0] <= std::max<std::int64_t>(0, left);
}

std::string RunSaves::write(const ProgressState& progress) {
  renew_lock();
  log_.sync();
  std::vector<std::int64_t> spared = progress.spared;
  spared.push_back(proven_);
  if (options_.load_best_model) spared.push_back(progress.best.step);
  return save_state(options_, state_, progress, std::move(spared));
}

std::string RunSaves::way_back() const {
  if (saved_ < 0) return "there is no checkpoint to go back to";
  if (proven_ >= 0) return "go back with --resume " + path_of(proven_);
  return core::concat(path_of(saved_), " may be broken too: go back to an older one by --resume");
}

std::string RunSaves::path_of(std::int64_t step) const {
  const bool elsewhere = options_.resume == checkpoint::Resume::kPath && step == resumed_;
  return elsewhere ? options_.resume_path
                   : core::concat(options_.output_dir, "/", checkpoint::tag_of_step(step));
}

// So that no other run begins to write beside this one's saves.
void RunSaves::renew_lock() {
  if (lock_ == nullptr) return;
  const std::string done = lock_->renew();
  if (!done.empty()) log_.warn(done);
}

}  // namespace fm::engine

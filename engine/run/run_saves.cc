#include "engine/run/run_saves.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <span>
#include <utility>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/lineage.h"
#include "comm/agree.h"
#include "core/check.h"
#include "engine/plan/save_room.h"
#include "engine/step/tensors.h"

namespace fm::engine {

using core::ExitCode;

namespace {

using Clock = std::chrono::steady_clock;

// Adds the time of its life.
class Stall {
 public:
  explicit Stall(double& total_ms) : total_ms_(total_ms) {}
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;
  ~Stall() { total_ms_ += ms(); }

  double ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  double& total_ms_;
  const Clock::time_point start_ = Clock::now();
};

// Of what this rank trains, whether its device holds some.
bool reads_device(const RankState& state) {
  const auto trained =
      std::span(state.layout.flat_params).first(static_cast<std::size_t>(state.layout.trained));
  return state.device != nullptr && std::ranges::any_of(trained, [](const auto& flat_param) {
           return flat_param.alias < 0 && !flat_param.on_host;
         });
}

}  // namespace

void RunSaves::begin(checkpoint::OutputLock* lock, std::int64_t resumed) {
  lock_ = lock;
  saved_ = resumed_ = resumed;
  save_ms_ = state_.save_ms;
  if (state_.plan.copies_saves) {
    const core::Bytes part = part_for_save(state_.layout);
    if (part.count() > 0) part_room_.emplace(state_.ledger, part);
    copy_.emplace(state_.ledger, slices(Beside::kSteps),
                  reads_device(state_) ? &state_.host_memory->crossed : nullptr);
  }
  const bool own = resumed >= 0 && options_.resume != checkpoint::Resume::kPath;
  if (lock == nullptr || !own) return;
  const std::string problem = checkpoint::name_latest(options_.output_dir, resumed);
  if (!problem.empty()) log_.warn("`latest` still names an older checkpoint: " + problem);
}

void RunSaves::before_step(bool skipped) {
  // What a skip leaves to go back to are checkpoints that are there.
  if (skipped) settle();
}

void RunSaves::after_step(ProgressState& progress) {
  if (progress.consecutive_skips == 0) {
    proven_ = saved_;
    last_good_ = progress.step;
  } else if (progress.spared.empty() && saved_ >= 0) {
    progress.spared = {saved_};
    if (proven_ >= 0 && proven_ != saved_) progress.spared.push_back(proven_);
  }
}

void RunSaves::save(const ProgressState& progress, Must must) {
  if (options_.dry_run) return;
  const Stall stall(stall_ms_);
  const std::int64_t before = course_step_;
  const bool waits = under_way();
  finish_course();
  if (waits && before != progress.step) say_waited(before, progress.step, stall.ms());
  if (holds(progress.step)) return;
  if (progress.consecutive_skips > 0) {
    log_.warn(core::concat(checkpoint::tag_of_step(progress.step),
                           " is not saved, because that step was skipped; ", way_back()));
    return;
  }
  begin_course(progress, must);
}

void RunSaves::go_on() {
  const Stall stall(stall_ms_);
  advance();
}

void RunSaves::settle() {
  const Stall stall(stall_ms_);
  finish_course();
}

void RunSaves::begin_course(const ProgressState& progress, Must must) {
  aside_ = copy_ && must == Must::kMayFail;
  std::vector<checkpoint::FileSlice> mine = slices(aside_ ? Beside::kSteps : Beside::kNothing);
  // What sleeps is read once, and looked at then.
  const bool sleeps = state_.plan.state.rules.tiers.has(core::Tier::kNvme);
  if (aside_) {
    copy_->take(mine, state_.work.threads);
  } else if (!sleeps) {
    check_finite(state_.world, non_finite_in(mine), way_back());
  }
  state_.fence.check();
  must_ = must;
  const std::string problem =
      comm::text_of_rank0(state_.world, lock_ == nullptr ? "" : lock_->moved());
  if (!problem.empty()) return fail(problem);
  renew_lock();
  course_began_ = Clock::now();
  known_ms_ = save_ms_;
  course_step_ = progress.step;
  using Where = checkpoint::SaveCourse::Where;
  checkpoint::SaveRequest request = request_of(progress, std::move(mine));
  request.beside = log_.sync_later();
  request.finite_only = aside_ || sleeps;  // aside its thread looks, which takes no time of a step
  course_.emplace(std::move(request), state_.world, aside_ ? Where::kThread : Where::kHere);
  if (!aside_ || course_->over()) finish_course();
}

std::vector<checkpoint::FileSlice> RunSaves::slices(Beside beside) {
  offload::PartRoom* const held = beside == Beside::kSteps && part_room_ ? &*part_room_ : nullptr;
  return checkpoint_slices(state_, options_.optimizer, Part::kOwned, held);
}

void RunSaves::advance() {
  course_->meet();
  if (course_->result().durable && saved_ != course_step_) see_durable();
  if (course_->over()) end_course();
}

void RunSaves::finish_course() {
  if (course_ && course_->over()) end_course();
  while (course_) advance();
}

void RunSaves::see_durable() {
  saved_ = course_step_;
  if (last_good_ > saved_) proven_ = saved_;
  failed_ = 0;
  learn_time(course_->result().seconds);
  log_.say("saved " + path_of(saved_));
}

void RunSaves::end_course() {
  const checkpoint::SaveResult result = course_->result();
  course_.reset();
  check_finite_in(result);
  if (!result.durable) return fail(result.problem);
  learn_time(result.seconds);
}

// Beside steps a save takes longer than the one behind a signal, beside which nothing runs.
void RunSaves::learn_time(double seconds) {
  const auto ms = 1 + static_cast<std::int64_t>(1e3 * seconds);
  if (aside_) aside_ms_ = ms;
  save_ms_ = aside_ && known_ms_ > 0 ? std::min(known_ms_, ms) : ms;
}

void RunSaves::check_finite_in(const checkpoint::SaveResult& result) const {
  FM_MACHINE_CHECK(result.broken.empty(), ExitCode::kNumericLimit,
                   not_finite_text(result.broken, way_back()));
}

void RunSaves::fail(const std::string& problem) {
  FM_MACHINE_CHECK(must_ == Must::kMayFail, ExitCode::kStorageFailed, problem);
  FM_MACHINE_CHECK(
      ++failed_ < options_.max_failed_saves, ExitCode::kStorageFailed,
      "checkpoints must reach the disk, or a long run works for nothing; make space or repair "
      "the output directory, then start the same command again (",
      failed_, " saves failed in a row, the newest checkpoint is ",
      saved_ < 0 ? "none" : core::concat("of step ", saved_), "; the last one: ", problem, ")");
  log_.warn(problem);
}

void RunSaves::say_waited(std::int64_t before, std::int64_t next, double ms) {
  constexpr double kWorthALine = 1000;
  if (ms < kWorthALine) return;
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.1f s", 1e-3 * ms);
  log_.warn(core::concat("the save of step ", next, " waited ", seconds, " for that of step ",
                         before, ": checkpoints come faster than the disk takes them"));
}

bool RunSaves::ends_within(std::int64_t step, const std::optional<double>& seconds_left) const {
  constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
  const auto mine = seconds_left ? static_cast<std::int64_t>(1e3 * *seconds_left) : kEndless;
  const std::int64_t left = std::ranges::min(comm::gather_numbers(state_.world, mine));
  std::int64_t need = writes(step) ? 0 : save_ms_;
  if (under_way()) {  // its end comes first
    const auto ran =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - course_began_);
    need += std::max<std::int64_t>(0, std::max(aside_ms_, save_ms_) - ran.count());
  }
  return comm::gather_numbers(state_.world, need)[0] <= std::max<std::int64_t>(0, left);
}

checkpoint::SaveRequest RunSaves::request_of(const ProgressState& progress,
                                             std::vector<checkpoint::FileSlice> mine) const {
  std::vector<std::int64_t> spared = progress.spared;
  spared.push_back(proven_);
  if (options_.saves_best()) spared.push_back(progress.best.step);
  return save_request(options_, state_, progress, std::move(mine), std::move(spared));
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

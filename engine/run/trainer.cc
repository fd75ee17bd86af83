#include "engine/run/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "checkpoint/find_checkpoint.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/fault.h"
#include "core/text.h"
#include "engine/plan/run_model.h"
#include "engine/run/drive_checks.h"
#include "engine/run/run_box.h"
#include "engine/run/run_data.h"
#include "engine/run/run_saves.h"
#include "engine/run/run_text.h"
#include "engine/run/step_course.h"
#include "engine/run/step_exchange.h"
#include "engine/shown/explain_skip.h"
#include "engine/shown/grace.h"
#include "engine/shown/next_commands.h"
#include "engine/shown/plan.h"
#include "engine/shown/run_log.h"
#include "engine/shown/run_monitors.h"
#include "engine/shown/step_profile.h"
#include "engine/shown/step_trace.h"
#include "engine/state/persistence.h"
#include "engine/state/rate_change.h"
#include "engine/state/run_facts.h"
#include "engine/state/run_identity.h"
#include "engine/step/evaluation.h"
#include "engine/step/step_runtime.h"
#include "engine/step/tensors.h"
#include "engine/step/tier_moves.h"
#include "kernels/gemm/contended.h"
#include "kernels/gemm/gemm.h"
#include "machine/limits.h"

namespace fm::engine {
namespace {

using core::ExitCode;

rusage usage_so_far() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

core::Queue* queue_of(const RankDevice& computes) {
  return computes.device == nullptr ? nullptr : &computes.device->compute();
}

// Why a run ends before its last step.
std::string stopped_words(const BestEvaluation& best, double threshold) {
  const std::string evaluations = core::counted(best.worse, "evaluation");
  if (best.step < 0) return core::concat("stopped early: no loss of ", evaluations, " was finite");
  const std::string that = core::concat("that of step ", best.step, " (loss ", best.loss, ")");
  if (threshold == 0.0) {
    return core::concat("stopped early: no better evaluation than ", that, " in ", evaluations);
  }
  return core::concat("stopped early: ", evaluations, " in a row were not better by more than ",
                      threshold, "; the best is ", that);
}

constexpr core::TraceForm kStep = {"step", core::TraceKind::kStep, {"step"}};
constexpr core::TraceForm kLoadStep = {"load_step", core::TraceKind::kPart};

// One training run of one rank.
//
// Invariant: progress_ describes the weights in state_ at every step boundary where no step is in
//            flight; the next step concludes that one.
// Thread:    the rank's thread; everything collective over the world.
// Lifetime:  options, world and context outlive it.
class Trainer {
 public:
  // `trace` may be null.
  Trainer(const TrainOptions& options, const model::OpenedModel& opened, comm::Communicator& world,
          const RunContext& context, StepTrace* trace)
      : options_(options),
        context_(context),
        trace_(trace),
        clock_(queue_of(context.computes)),
        opened_(opened),
        plan_(make_plan_on_drives(options, opened, world, context.memory)),
        rows_(open_rows(options, opened.model.vocab, ledger_, *ranks_of_host(world),
                        asked_to_end(context.signals))),
        epochs_{rows_.training->samples_per_epoch(), plan_.batch.train_batch,
                steps_of_epoch(rows_.training->samples_per_epoch(), plan_.batch)},
        drive_notes_(check_drives(options, plan_, world)),
        state_(options, plan_, opened.model, world, ledger_, context.computes),
        stream_(*rows_.training, stream_layout(state_, options)),
        runtime_(state_, clock_, context.box),
        log_(options, context, world.rank() == 0),
        monitors_({.options = options, .opened = opened, .plan = &plan_}, log_, world.rank() == 0),
        saves_(options, state_, log_),
        speculative_(options, plan_, context.signals, rows_.evaluation != nullptr),
        exchange_(world, context.box, pipe_ranks_of(plan_.mesh)) {
    state_.fence = context.fence;
    if (context.box != nullptr) name_parts(*context.box, opened.model);
    const bool repeats = options.allow_repeat || options.eval_only;
    check_samples(plan_.batch, rows_.training->samples_per_epoch(), repeats);
    if (rows_.evaluation)
      evaluation_.emplace(std::move(rows_.evaluation), state_, runtime_, options);
  }

  // `lock` of rank 0, null elsewhere.
  int run(checkpoint::OutputLock* lock) {
    try {
      const int code = run_to_the_end(lock);
      runtime_.settle();
      return code;
    } catch (...) {
      if (context_.on_error) context_.on_error();
      core::fault({"teardown", state_.world.rank(), next_step()});
      throw;
    }
  }

 private:
  int run_to_the_end(checkpoint::OutputLock* lock) {
    const bool resumes = restore();
    state_.fence.check();
    if (options_.eval_only) return evaluate_only(resumes);
    saves_.begin(lock, resumes ? progress_.step : -1);
    log_.begin_after(progress_.step);
    KnownRun introduced = known();
    if (state_.world.rank() == 0) introduced.data.notes = rows_.training->notes();
    introduced.data.notes.insert(introduced.data.notes.end(), drive_notes_.begin(),
                                 drive_notes_.end());
    log_.introduce(introduced, context_, progress_.step);
    log_.say(resumes ? resumption() : fresh_start());
    if (!options_.dry_run) say_grace();
    if (trace_ != nullptr) trace_->begin(options_.train_steps - progress_.step, plan_);
    while (progress_.step < options_.train_steps && !stops_early()) {
      step();
      if (steps_begun_ == 1) look_at_products();
      if (trace_ != nullptr && trace_->complete()) write_trace();
      if (!options_.dump_gradients.empty()) return finish_dump();
      if (speculative_.in_flight() > 0) continue;
      const SignalInbox::Requests asked = tell_others();
      const bool last = progress_.step == options_.train_steps || stops_early();
      const bool best = options_.saves_best() && progress_.best.step == progress_.step;
      const bool due = options_.saves && (is_multiple(options_.save_steps) || best);
      if (asked.terminate && !saves_in_time()) return end_unsaved();
      const bool save = asked.terminate || asked.save || (due && !last);
      if (save) this->save(asked.terminate ? Must::kSucceed : Must::kMayFail);
      if (asked.terminate && trace_ != nullptr && trace_->unwritten()) write_trace();
      if (asked.terminate) return end_early();
    }
    if (trace_ != nullptr && trace_->unwritten()) write_trace();
    finish();
    return static_cast<int>(ExitCode::kFinished);
  }

  int evaluate_only(bool resumes) {
    log_.introduce(known(), context_, progress_.step);
    const std::filesystem::path weights = weights_folder(options_);
    log_.say(resumes           ? core::concat("evaluating the checkpoint of step ", progress_.step)
             : weights.empty() ? "evaluating random weights: there is no checkpoint"
                               : "evaluating " + weights.string());
    const double loss = evaluation_->run();
    state_.fence.check();
    log_.evaluation(progress_.step, loss, evaluation_->rows());
    return static_cast<int>(ExitCode::kFinished);
  }

  // All ranks at once, as they compute. Not in a short run, nor where the user chose.
  void look_at_products() {
    constexpr std::int64_t kLongRun = 50;
    const bool chosen_here = kernels::amx_chosen() && std::getenv("FME_GEMM") == nullptr;
    const bool fp32 = options_.element == core::DType::kF32 && state_.work.queue == nullptr;
    if (!chosen_here || !fp32 || options_.train_steps - progress_.step < kLongRun) return;
    const std::string note = kernels::contended_note(kernels::measure_gemm(state_.work));
    if (!note.empty() && state_.world.rank() == 0) log_.warn(note);
  }

  bool is_multiple(std::int64_t steps) const { return steps > 0 && progress_.step % steps == 0; }
  bool stops_early() const {
    return options_.early_stopping_patience > 0 &&
           progress_.best.worse >= options_.early_stopping_patience;
  }

  KnownRun known() const {
    return {.options = options_,
            .opened = opened_,
            .plan = &plan_,
            .launch_decision = context_.launch_decision,
            .data = {.description = core::concat(
                         rows_.training->describe(), "; ", epochs_.words(options_.train_steps),
                         options_.left_open.chosen.empty() ? "" : "; ", options_.left_open.chosen),
                     .training = rows_.training->fingerprint(),
                     .evaluation = evaluation_ ? evaluation_->fingerprint() : ""},
            .frozen_weights = frozen_weights_,
            .stores = stores_text(state_)};
  }

  // Whether there was a checkpoint to go on from.
  bool restore() {
    const Arithmetic arithmetic = context_.arithmetic.value_or(arithmetic_here(options_.element));
    const std::string uneven = check_same_arithmetic(arithmetic, state_.world);
    if (!uneven.empty()) log_.warn(uneven);
    check_same_start(run_facts(known()), state_.world);
    if (opened_.model.has_frozen()) {  // a checkpoint does not hold them
      fill_state(options_, opened_, state_);
      frozen_weights_ = fingerprint_of_frozen(state_);
    }
    const std::vector<Fact> facts = run_facts(known());
    RunIdentity now = identity_of(
        options_, data_text(rows_.training->fingerprint(), core::join(options_.data_path, " ")),
        arithmetic, facts);
    const std::optional<ProgressState> found = resume_state(options_, state_);
    if (found) {
      if (options_.eval_only) {  // of any data, and no optimizer
        now.data = found->run.data;
        now.optimizer = found->run.optimizer;
        now.optimization.clear();
      }
      for (const std::string& warning : compare_runs(found->run, now)) log_.warn(warning);
      if (!options_.eval_only && found->step < options_.train_steps) {
        const std::string jump = rate_change(found->run.optimization, options_, found->applied);
        if (!jump.empty()) log_.warn(jump);
      }
      if (!options_.eval_only && options_.train_epochs > 0.0) {
        const std::string end = epochs_.other_end(options_.train_epochs, found->step,
                                                  found->samples, options_.train_steps);
        if (!end.empty()) log_.warn(end);
      }
      progress_ = *found;
    } else if (!opened_.model.has_frozen()) {
      fill_state(options_, opened_, state_);
    }
    if (!options_.loss_scale) {
      progress_.loss_scale.reset();
    } else if (!progress_.loss_scale || options_.loss_scale->fixed > 0.0) {
      progress_.loss_scale = optim::first_state(*options_.loss_scale);
    }
    progress_.run = std::move(now);
    progress_.exports = export_facts(options_, opened_.facts);
    return found.has_value();
  }

  std::string resumption() const {
    if (progress_.step < options_.train_steps) {
      return core::concat("resuming at step ", progress_.step, ", sample ", progress_.samples);
    }
    return core::concat("nothing to train: the checkpoint is of step ", progress_.step,
                        ", --train_steps is ", options_.train_steps);
  }

  std::string fresh_start() const {
    return options_.resume == checkpoint::Resume::kNever
               ? "fresh start: --resume never"
               : core::concat("no checkpoint to resume in ", options_.output_dir, ": fresh start");
  }

  bool has_data() const {
    const int here = state_.at.pipe_rank;
    const bool ends = plan_.units().has_embedding(here) || plan_.units().has_head(here);
    return ends || options_.document_attention;
  }

  void step() {
    const auto start = std::chrono::steady_clock::now();
    const rusage before = usage_so_far();
    const std::int64_t waited_before = waited_ns();
    const auto moved_before = moved_so_far(state_);
    clock_.begin_step();
    enter(core::RunPhase::kStep, next_step());
    core::fault({"step.pre", state_.world.rank(), next_step()});
    TimedStep done;
    compute(done);
    clock_.end_step();
    computed_scale_ = done.request.loss_scale;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    done.seconds = spent.count();
    exchange_.add_step(static_cast<std::int64_t>(1e9 * done.seconds), waited_ns() - waited_before);
    enter(core::RunPhase::kBetweenSteps, next_step());
    done.phases = clock_.times();  // to explain a skip is no part of the step
    done.phases.fill(1e3 * done.seconds);
    done.moved = moved_since(moved_before, state_);
    done.mem_peak = machine::peak_memory();
    if (state_.device != nullptr) done.device_memory = state_.device->memory_taken();
    done.minor_faults = usage_so_far().ru_minflt - before.ru_minflt;
    if (done.request.speculative) return speculative_.hold(done);
    conclude(done);
  }

  std::int64_t next_step() const { return progress_.step + speculative_.in_flight() + 1; }

  void load_rows(std::int64_t first_sample) {
    if (!has_data()) return;
    const core::TraceRange range(clock_, core::Phase::kData);
    const core::TraceScope load(kLoadStep);
    stream_.load_step(first_sample);
  }

  // The step's result is final: counts and shows it.
  void conclude(const TimedStep& done) {
    const StepResult& result = done.result;
    if (result.skipped) {
      if (done.request.speculative) load_rows(progress_.samples);  // the stream has the next step's
      explain_skip({runtime_, stream_, state_, progress_, log_}, done.request, result);
    }
    saves_.before_step(result.skipped);
    advance(options_, result, plan_.batch.train_batch, saves_, progress_);
    speculative_.see(result);
    saves_.after_step(progress_);
    const StepLine line = evaluated_line_of(done);
    if (state_.world.rank() == 0) state_.fence.check_each_second();  // it alone writes lines
    log_.step(line);
    if (!line.loss && state_.world.rank() == 0) {
      log_.say_untrained(untrained_text(*rows_.training, progress_, plan_.batch.train_batch));
    }
    monitors_.step(line, progress_.skipped);
    // Lines of steps have the epoch; where it is short, this would be most of the screen.
    constexpr std::int64_t kLongEpoch = 50;
    const std::int64_t ended = epochs_.ended(progress_.samples);
    const bool just_now = ended > epochs_.ended(progress_.samples - epochs_.train_batch);
    if (just_now && epochs_.steps > kLongEpoch) {
      log_.say(core::concat("epoch ", ended, " ended in step ", progress_.step));
    }
    core::fault({"step.post", state_.world.rank(), done.request.step});
    FM_MACHINE_CHECK(
        progress_.consecutive_skips < options_.max_consecutive_skips, ExitCode::kNumericLimit,
        "loss and gradients must be finite; lower the learning rate or look at the data, and ",
        saves_.way_back(), " (", progress_.consecutive_skips, " steps skipped in a row, last step ",
        progress_.step, ")");
  }

  // Concludes the step before, too, where that one is in flight.
  void compute(TimedStep& step) {
    ++steps_begun_;
    const core::Recording recording(trace_ == nullptr ? nullptr
                                                      : trace_->recorder_of(steps_begun_));
    const core::TraceScope scope(kStep, {next_step()});
    const std::int64_t first =
        progress_.samples + speculative_.in_flight() * plan_.batch.train_batch;
    load_rows(first);
    if (const auto last = speculative_.take_validated(runtime_, stream_)) {
      conclude(*last);
      if (last->result.skipped) load_rows(first);  // to explain it took other rows
    }
    step.request = speculative_.next_request(progress_, saves_.under_way());
    const core::PacedStep paced(context_.pace);
    step.result = runtime_.train_step(stream_, step.request);
  }

  void write_trace() {
    state_.fence.check();
    if (state_.work.queue != nullptr) state_.work.queue->finish();  // it knows the kernels' times
    const StepTrace::Outcome outcome = trace_->write();
    if (outcome.failed) return log_.warn(outcome.text);
    log_.say(outcome.text);
  }

  StepLine evaluated_line_of(const TimedStep& done) {
    StepLine line = line_of(done, options_, plan_, progress_);
    line.epoch = epochs_.passed(progress_.samples);
    line.save_stall_ms = saves_.take_stall_ms();
    const bool last = progress_.step == options_.train_steps;
    if (evaluation_ && (is_multiple(options_.eval_steps) || last)) {
      enter(core::RunPhase::kEvaluation, progress_.step);
      line.eval_loss = evaluation_->run();
      enter(core::RunPhase::kBetweenSteps, progress_.step);
      if (progress_.consecutive_skips == 0) {  // else there will be no checkpoint of it
        progress_.best = after_evaluation(progress_.best, progress_.step, *line.eval_loss,
                                          options_.early_stopping_threshold);
      }
    }
    line.best = progress_.best;
    return line;
  }

  SignalInbox::Requests tell_others() {
    SignalInbox::Requests mine;
    if (context_.signals != nullptr) mine = context_.signals->read();
    const StepExchange::Told told = exchange_.tell(mine, saves_.ready(), progress_.step);
    if (told.slow) log_.note(text_of(*told.slow), json_of(*told.slow, progress_.step));
    if (told.all_ready) {
      in_save([this] { saves_.go_on(); });
    }
    return told.asked;
  }

  void enter(core::RunPhase phase, std::int64_t step) {
    if (context_.box != nullptr) context_.box->begin_phase(phase, step);
  }
  std::int64_t waited_ns() const { return context_.box == nullptr ? 0 : context_.box->waited_ns(); }

  void save(Must must) {
    in_save([this, must] { saves_.save(progress_, must); });
  }

  void settle_saves() {
    if (saves_.under_way()) in_save([this] { saves_.settle(); });
  }

  template <class Act>
  void in_save(const Act& act) {
    enter(core::RunPhase::kSave, progress_.step);
    act();
    warn_of_grace();
    enter(core::RunPhase::kBetweenSteps, progress_.step);
  }

  int finish_dump() {
    state_.fence.check();
    dump_gradients(options_.dump_gradients, computed_scale_, state_);
    log_.say(
        core::concat("gradients of step ", progress_.step, " are in ", options_.dump_gradients));
    return static_cast<int>(ExitCode::kFinished);
  }

  void say_grace() {
    if (!context_.grace) return;
    log_.say(grace_text(*context_.grace, saves_.save_seconds()));
    warn_of_grace();
  }

  // Once, as soon as it is known how long a save takes.
  void warn_of_grace() {
    if (!context_.grace || warned_of_grace_) return;
    const std::string warning = grace_warning(*context_.grace, saves_.save_seconds());
    warned_of_grace_ = !warning.empty();
    if (warned_of_grace_) log_.warn(warning);
  }

  // What is left until a launcher kills this rank; nothing: nobody is known to.
  std::optional<double> grace_left() const {
    if (!context_.grace || context_.signals == nullptr) return std::nullopt;
    const auto stopped = context_.signals->stopped();
    if (!stopped || !(stopped->by_launcher || context_.grace->from_all)) return std::nullopt;
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    return seconds_left(*context_.grace, stopped->seconds_ago, now.count());
  }

  // Collective, behind a signal. What is saved already, or not to be saved, takes no time.
  bool saves_in_time() const {
    const bool nothing = options_.dry_run || saves_.holds(progress_.step);
    return nothing || saves_.ends_within(progress_.step, grace_left());
  }

  // A save that is killed is worth nothing, and keeps the next start waiting.
  int end_unsaved() {
    const bool begun = saves_.writes(progress_.step);
    settle_saves();  // what is under way may just be in time
    if (saves_.holds(progress_.step)) return end_early();
    const std::string newest = saves_.newest();
    log_.warn(core::concat(
        "stopped by a signal in step ", progress_.step, " of ", options_.train_steps, ": ",
        begun ? "its save did not reach the disk; "
              : "no save was begun, as it would not end before the process is killed; ",
        newest.empty() ? "there is no checkpoint" : "the newest checkpoint is " + newest, ", ",
        progress_.step - saves_.saved_step(), " steps are lost; start the same command again, and ",
        "to lose less save more often (--save_steps)",
        context_.grace ? core::concat(", or ", context_.grace->longer, " (",
                                      grace_text(*context_.grace, saves_.save_seconds()), ")")
                       : std::string(),
        " (exit code 75)"));
    return static_cast<int>(ExitCode::kPreempted);
  }

  int end_early() {
    const std::string where = core::concat("stopped by a signal in step ", progress_.step, " of ",
                                           options_.train_steps, ": ");
    log_.say(saves_.holds(progress_.step)
                 ? core::concat(where, "everything is saved in ", saves_.newest(),
                                "; start the same command again to go on (exit code 75)")
                 : core::concat(where, "nothing was saved",
                                options_.dry_run ? ", as --dry_run asks" : "", "; ",
                                saves_.way_back(), " (exit code 75)"));
    return static_cast<int>(ExitCode::kPreempted);
  }

  void finish() {
    settle_saves();
    if (options_.dry_run) return log_.say("dry run: nothing was written");
    if (!options_.saves) return log_.say("--save_strategy no: nothing is saved and exported");
    FM_MACHINE_CHECK(progress_.consecutive_skips == 0, ExitCode::kNumericLimit,
                     "the last step must have a finite loss and gradient, or nothing is saved and "
                     "exported; choose --train_steps so that a step succeeds at the end, or ",
                     saves_.way_back(), " (last step ", progress_.step, ")");
    if (stops_early()) {
      log_.say(stopped_words(progress_.best, options_.early_stopping_threshold));
    }
    save(Must::kSucceed);
    const std::int64_t best = progress_.best.step;
    if (options_.load_best_model && best >= 0 && best != progress_.step) {
      const std::string problem = load_best(options_, best, progress_.step, state_);
      const std::string words = core::concat("the best evaluation was in step ", best, " (loss ",
                                             progress_.best.loss, "): ");
      if (problem.empty()) log_.say(words + "that model is exported");
      if (!problem.empty()) log_.warn(words + problem + ", the last model is exported");
    }
    enter(core::RunPhase::kExport, progress_.step);
    export_model(options_, opened_.facts, state_, export_target(options_, opened_.facts));
    const std::string folder = options_.output_dir + "/hf";
    log_.say(core::concat(
        "exported ", folder,
        knows_tokenizer(options_) ? "" : " without a tokenizer: put that of the token file there"));
    log_.summary(exported_words(options_, opened_.facts), next_commands(options_, context_));
  }

  const TrainOptions& options_;
  const RunContext& context_;
  StepTrace* const trace_;
  core::Ledger ledger_;
  core::PhaseClock clock_;
  const model::OpenedModel& opened_;
  RunPlan plan_;
  data::SplitSource rows_;  // evaluation: until it is evaluation_'s
  Epochs epochs_;
  const std::vector<std::string> drive_notes_;
  RankState state_;
  data::BatchStream stream_;
  StepRuntime runtime_;
  RunLog log_;
  RunMonitors monitors_;
  RunSaves saves_;
  SpeculativeSteps speculative_;
  StepExchange exchange_;
  std::optional<Evaluation> evaluation_;
  ProgressState progress_;
  std::string frozen_weights_;    // fingerprint
  std::int64_t steps_begun_ = 0;  // of this start
  double computed_scale_ = 1.0;   // of the last step's gradients: progress_ has the next one's
  bool warned_of_grace_ = false;
};

}  // namespace

void go_on_with_job(TrainOptions& options, const std::vector<std::string>& restarted,
                    comm::Communicator& world) {
  using checkpoint::Resume;
  const bool chosen = options.resume == Resume::kNever || options.resume == Resume::kPath;
  const bool elsewhere = chosen && !options.eval_only && !options.dry_run;
  // All ranks ask, as they may disagree about the flags, which is found later.
  const bool begun =
      checkpoint::has_begun(options.output_dir, options.resume,
                            elsewhere ? restarted : std::vector<std::string>(), world);
  if (!begun || !elsewhere) return;
  options.notes.push_back(core::concat(
      "started again by its launcher: goes on with the run that this job began by --resume ",
      options.resume == Resume::kNever ? "never" : options.resume_path));
  options.resume = Resume::kAuto;
}

int train(const TrainOptions& options, const model::OpenedModel& opened, comm::Communicator& world,
          const RunContext& context) {
  FM_USER_CHECK(!options.data_path.empty(), "training data is required; pass --data_path FILE");
  FM_USER_CHECK(!options.dry_run || (options.trace.empty() && options.dump_gradients.empty()),
                "--dry_run writes nothing; leave it out, or --trace and --dump_gradients (trace=",
                options.trace, ", dump_gradients=", options.dump_gradients, ")");
  check_same_start(run_facts({.options = options, .opened = opened}), world);
  if (options.dry_run && world.rank() == 0) {
    std::fputs(plan_text(options, opened, shape_of(options, world)).c_str(), stdout);
  }
  std::optional<checkpoint::OutputLock> lock;
  if (world.rank() == 0) {
    check_output_dir(options.output_dir);
    if (!options.dry_run) lock.emplace(options.output_dir);
  }
  context.fence.arm(options.output_dir, comm::text_of_rank0(world, lock ? lock->holder() : ""));
  std::optional<StepTrace> trace;
  if (!options.trace.empty()) trace.emplace(options, world);
  world.barrier().finish();
  comm::VerbCounts counts;
  keep_box(options, world, context);
  const auto watched = comm::traced(world, options.monitors.comms ? &counts : nullptr, context.box);
  const model::OpenedModel mine =
      part_of(opened, options, world.rank() % options.model_parallel_size);
  Trainer trainer(options, mine, *watched, context, trace ? &*trace : nullptr);
  const int code = trainer.run(lock ? &*lock : nullptr);
  if (options.monitors.comms && world.rank() == 0) std::fputs(comms_text(counts).c_str(), stdout);
  return code;
}

}  // namespace fm::engine

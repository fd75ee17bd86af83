// fmengine-train: words in, a trained model and an exit code out.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/launcher_grace.h"
#include "cli/launcher_jobs.h"
#include "cli/machine_report.h"
#include "cli/outputs.h"
#include "cli/run_device.h"
#include "cli/terminal.h"
#include "comm/meet/whereabouts.h"
#include "comm/meet/world.h"
#include "core/blackbox/black_box.h"
#include "core/check.h"
#include "core/process.h"
#include "core/step_pace.h"
#include "core/text.h"
#include "device/cuda.h"
#include "engine/plan/choose_rows.h"
#include "engine/plan/device_cards.h"
#include "engine/plan/run_model.h"
#include "engine/plan/run_tokens.h"
#include "engine/run/run_data.h"
#include "engine/run/run_text.h"
#include "engine/run/trainer.h"
#include "engine/shown/folder_notes.h"
#include "engine/shown/plan.h"
#include "engine/shown/plan_drives.h"
#include "kernels/threads.h"
#include "launch/engines.h"
#include "machine/cores.h"
#include "machine/limits.h"
#include "machine/stacks.h"
#include "observe/report/pipe_picture.h"

namespace {

using fm::cli::Action;
using fm::cli::Command;
using fm::cli::Ending;

constexpr int kEndMs = 5'000;           // of a process that has failed
constexpr int kRendezvousMs = 120'000;  // or --timeout_s, when that is shorter

// The environment, and below it what the command line says (deepspeed passes --local_rank=N).
fm::core::Environment with_flags(const Command& command) {
  return [&command, process = fm::core::process_environment()](
             const std::string& name) -> std::optional<std::string> {
    if (std::optional<std::string> value = process(name)) return value;
    if (name == "RANK") return command.rank;
    if (name == "LOCAL_RANK") return command.local_rank;
    if (name == "WORLD_SIZE") return command.world_size;
    return std::nullopt;
  };
}

// The kernels' threads and LibTorch's, which reads the variable at its first parallel region.
void set_threads(int threads) {
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  fm::kernels::set_kernel_threads(threads);
}

// What was asked for, in the place of a run: whoever reads it may stop, as of any program.
void print(const std::string& text) {
  std::signal(SIGPIPE, SIG_DFL);
  fm::cli::print_line(text);
}

int print_report(const std::string& threads) {
  for (const std::string& line : fm::cli::report_lines(threads)) print(line);
  for (const std::string& line : fm::cli::device_report()) print(line);
  return 0;
}

// Above the timeline of a run where --trace names one.
void draw_plan(const Command& command, const std::string& prediction) {
  const auto predicted = fm::report::read_prediction(prediction);
  std::optional<fm::report::TraceStep> trace;
  if (!command.options.trace.empty()) {
    trace = fm::report::read_trace_step(command.options.trace);
  }
  const fm::report::PipePicture picture =
      fm::report::pipe_picture(&predicted.value(), trace ? &*trace : nullptr);
  fm::cli::write_output({"picture", "--svg"}, command.svg, fm::report::svg_file(picture));
}

// "": nothing is written.
void write_csv(const std::string& flag, const std::string& path,
               const std::function<std::string()>& text) {
  if (!path.empty()) fm::cli::write_output({"schedule", flag}, path, text());
}

int print_study(const Command& command) {
  using fm::pipeline::CsvForm;
  const auto csv = [&](CsvForm form) {
    return fm::engine::study_csv(command.options, command.micros, form);
  };
  print(command.json ? fm::engine::study_json(command.options, command.micros)
                     : fm::engine::study_text(command.options, command.micros));
  if (!command.svg.empty()) {
    draw_plan(command, fm::engine::study_prediction(command.options, command.micros));
  }
  write_csv("--csv", command.csv, [&] { return csv(CsvForm::kComputeOnly); });
  write_csv("--csv_messages", command.csv_messages, [&] { return csv(CsvForm::kWithMessages); });
  return 0;
}

void add_folder_notes(Command& command, const fm::model::ModelFacts& facts) {
  for (std::string& note : fm::engine::folder_notes(command.options, facts)) {
    command.options.notes.push_back(std::move(note));
  }
}

// What the ranks of a plan have, by its flags and this machine.
fm::engine::PlanHost plan_host(Command& command, int ranks) {
  using fm::engine::DeviceKind;
  using Limits = std::vector<fm::machine::MemoryLimit>;
  DeviceKind& kind = command.options.device.kind;
  const fm::core::Bytes asked = command.device_memory.value_or(fm::core::Bytes(0));
  const bool describes = command.device_memory || !command.device_card.empty();
  FM_USER_CHECK(!describes || kind == DeviceKind::kCuda || kind == DeviceKind::kAuto,
                "--device_memory and --device_card tell of a GPU; add --device cuda");
  if (kind == DeviceKind::kCuda || kind == DeviceKind::kAuto) {
    const fm::cli::PlanDevice card = fm::cli::plan_device(asked, command.device_card);
    const bool known = card.memory.count() > 0;
    kind = known || kind == DeviceKind::kCuda ? DeviceKind::kCuda : DeviceKind::kCpu;
    if (kind == DeviceKind::kCuda) {
      using Holds = fm::machine::MemoryLimit::Holds;
      const fm::core::Bytes left = card.memory - fm::engine::kCardContext -
                                   fm::engine::late_memory(ranks) -
                                   fm::device::attention_memory(card.memory);
      Limits limits;
      if (known) {
        limits.push_back(
            {"device", "a GPU of " + fm::core::human(card.memory), left, Holds::kDevice});
      }
      if (command.host_memory) {
        limits.push_back({"host", "--host_memory", *command.host_memory, Holds::kHost});
      }
      return {.memory = std::move(limits), .card = card.card};
    }
  }
  return {.memory = command.host_memory ? Limits{{"host", "--host_memory", *command.host_memory}}
                                        : fm::machine::memory_limits(),
          .cores = command.host_cores};
}

// By flags, else by this machine.
fm::engine::PlanDrives plan_drives(const Command& command) {
  fm::engine::PlanDrives drives = fm::engine::drives_here(command.options.offload);
  drives.endurance = command.nvme_endurance;
  if (command.nvme_rate) {
    drives.rate = command.nvme_rate;
    drives.rate_from = "--nvme_rate";
  } else {
    fm::engine::measure_drives(command.options.offload, drives);
  }
  return drives;
}

int print_plan(Command& command, const fm::comm::LaunchInfo& launch) {
  const int ranks = command.plan_ranks > 0 ? command.plan_ranks : launch.world_size;
  if (launch.world_rank != 0) return 0;
  if (command.micros > 0) return print_study(command);
  fm::engine::PlanHost host = plan_host(command, ranks);
  host.drives = plan_drives(command);
  if (const fm::cli::Terminal seen = fm::cli::terminal_of(launch); seen.shown) {
    host.columns = seen.columns();
  }
  const bool shared = command.options.shared_memory && ranks <= command.options.ranks_per_host &&
                      command.options.device.kind == fm::engine::DeviceKind::kCpu;
  const fm::engine::WorldShape world{
      .ranks = ranks,
      .sharing = shared ? fm::core::ParamSharing::kOneHost : fm::core::ParamSharing::kPrivate,
      .threads = fm::kernels::kernel_threads(),
      .host_of = fm::engine::planned_hosts(command.options, ranks)};
  fm::engine::choose_rows(command.options);
  const fm::model::OpenedModel opened = fm::engine::open_run_model(command.options);
  add_folder_notes(command, opened.facts);
  if (!command.svg.empty()) {
    draw_plan(command, fm::engine::plan_prediction(command.options, opened, world, host));
  }
  print(command.json ? fm::engine::plan_json(command.options, opened, world, host)
                     : fm::engine::plan_text(command.options, opened, world, host));
  const auto csv = [&](fm::pipeline::CsvForm form) {
    return fm::engine::plan_csv(command.options, opened, world, host, form);
  };
  write_csv("--csv", command.csv, [&] { return csv(fm::pipeline::CsvForm::kComputeOnly); });
  write_csv("--csv_messages", command.csv_messages,
            [&] { return csv(fm::pipeline::CsvForm::kWithMessages); });
  return 0;
}

int print_config(Command& command, const fm::comm::LaunchInfo& launch) {
  if (launch.world_rank != 0) return 0;
  const int ranks = command.plan_ranks > 0 ? command.plan_ranks : launch.world_size;
  const fm::engine::TrainOptions& options = command.options;
  const int dp_size =
      std::max(1, ranks / (options.pipe_parallel_size * options.model_parallel_size *
                           options.sequence_parallel_size));
  fm::engine::choose_rows(command.options);
  const fm::model::OpenedModel opened = fm::engine::open_run_model(command.options);
  complete(command.config, command.options, dp_size, opened.model.hidden);
  print(command.json ? json_of(command.config) : text_of(command.config));
  return 0;
}

void print_warnings(const fm::comm::LaunchInfo& launch) {
  if (launch.world_rank != 0) return;
  for (const std::string& warning : launch.warnings) {
    std::fprintf(stderr, "fmengine-train: warning: %s\n", warning.c_str());
  }
}

// What lives as long as the process, so that nothing ends it while it says why it stops.
struct Process {
  Ending ending{"fmengine-train"};
  fm::core::BlackBox box;
  fm::machine::CorePlan cores;
  std::optional<fm::engine::SignalInbox> signals;
  fm::checkpoint::OutputFence fence;
  fm::core::StepPace pace;
  std::unique_ptr<fm::comm::Communicator> world;  // its end may block: after the others know
};

// A rank that wakes up behind a newer run ends because of that, whoever else has ended meanwhile.
fm::comm::PeerLoss in_its_words(const Process& process, fm::comm::PeerLoss loss) {
  const std::string newer = process.fence.problem();
  if (newer.empty()) return loss;
  return {.world_rank = loss.world_rank,
          .exit_code = static_cast<int>(fm::core::ExitCode::kLocked),
          .message = process.ending.line_of(newer)};
}

// For threads that watch the main thread.
fm::comm::Whereabouts whereabouts_of(const fm::core::BlackBox& box) {
  return {
      .moves = box.moves(), .waits_for_peers = box.waits_for_peers(), .text = box.whereabouts()};
}

// From any thread.
[[noreturn]] void end_now(Process& process, int code) {
  process.box.end(code);
  std::_Exit(code);
}

// Ranks of one run write into one folder.
std::string name_of_job(const std::string& output_dir) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(output_dir, ignored);
  return "--output_dir=" + whole.lexically_normal().string();
}

// Lengths in epochs become steps: the words are read again, with the steps of one. `host`: ranks
// that share its disks.
Command count_epochs(const std::vector<std::string>& words, Command command, int started_ranks,
                     fm::comm::Communicator& host, std::function<bool()> stop) {
  const int ranks = command.plan_ranks > 0 ? command.plan_ranks : started_ranks;
  fm::engine::choose_rows(command.options);
  const std::int64_t vocab = fm::engine::open_run_model(command.options).model.vocab;
  Command counted = fm::cli::parse_command(
      words,
      fm::engine::count_steps_of_epoch(command.options, vocab, ranks, host, std::move(stop)));
  counted.options.lora.token_rows = command.options.lora.token_rows;
  return counted;
}

// How long the main thread may stand still now; 0: without a limit.
std::function<int()> limit_of_stillness(const Process& process, int least_ms) {
  return [&process, least_ms] { return process.pace.limit_ms(least_ms); };
}

std::unique_ptr<fm::comm::Communicator> meet(const Command& command,
                                             const fm::comm::LaunchInfo& launch, Process& process) {
  try {
    return fm::comm::connect(
        launch, {.timeout_ms = command.options.timeout_ms,
                 .rendezvous_ms = std::min(kRendezvousMs, command.options.timeout_ms),
                 .shared_memory = command.options.shared_memory,
                 .host_cpus = process.cores.host_cpus,
                 .job = name_of_job(command.options.output_dir),
                 .interfaces = command.options.interfaces,
                 .on_connected = [&] { process.ending.set_speaks(launch.world_rank == 0); },
                 .hang_ms = command.options.hang_ms,
                 .whereabouts = [&process] { return whereabouts_of(process.box); },
                 .still_limit_ms = limit_of_stillness(process, command.options.hang_ms),
                 .on_peer_lost =
                     [&process](const fm::comm::PeerLoss& loss) {
                       process.ending.limit_end(loss.exit_code);
                       process.signals->end_if_asked();
                       end_now(process, process.ending.follow(in_its_words(process, loss)));
                     }});
  } catch (const fm::core::Error&) {
    process.signals->end_if_asked();
    throw;
  }
}

int train(const std::vector<std::string>& words, Command command,
          const fm::comm::LaunchInfo& launch, Process& process) {
  // Before any other thread: they inherit what is blocked.
  process.signals.emplace([&process](const char* why, int code) {
    std::fprintf(stderr, "fmengine: %s\n", why);
    end_now(process, code);
  });
  Ending& ending = process.ending;
  print_warnings(launch);
  ending.set_end_ms(kEndMs);
  ending.set_on_limit([&process](int code) { process.box.end(code); });
  ending.set_whereabouts([&process] { return whereabouts_of(process.box).text; });
  ending.set_shut_down(fm::comm::shut_down_with_error);
  const auto end_by = [&process](const fm::core::MachineError& error) {
    end_now(process, process.ending.end_by(error));
  };
  process.world = meet(command, launch, process);
  const auto& world = process.world;
  process.signals->begin_run();
  fm::machine::check_stacks(fm::machine::stacks_here());
  const fm::cli::RunDevice computes = fm::cli::open_run_device(
      command.options.device, launch, *world, command.options.timeout_ms, end_by);
  const fm::engine::DeviceOptions device = command.options.device;
  const fm::cli::Terminal terminal = fm::cli::terminal_of(launch);
  const std::string trust = fm::comm::trust_line(launch);
  const fm::engine::RunContext context{
      .launch_decision = launch.decision + (trust.empty() ? "" : "; " + trust) +
                         (world->size() > 1 ? "; " + world->describe() : std::string()) +
                         (computes.device ? ", each with a " + computes.device->name() : ""),
      .machine = fm::cli::machine_line(process.cores.why) +
                 (computes.line.empty() ? "" : "; " + computes.line),
      .terminal = terminal.shown,
      .columns = terminal.columns,
      .programs = fm::cli::programs_prefix(),
      .version = fm::cli::version_text(),
      .computes = {computes.device.get(), computes.link},
      .peak_flops = computes.peak_flops,
      .box = &process.box,
      .signals = &*process.signals,
      .grace = fm::cli::launcher_grace(fm::core::process_environment(), command.options.grace_s),
      .fence = process.fence,
      .pace = &process.pace,
      .on_error = [&ending] { ending.fail_now(); },
      .memory = computes.memory,
      .arithmetic = computes.libraries.empty() ? std::nullopt
                                               : std::optional(fm::engine::arithmetic_of(
                                                     command.options.element, computes.libraries))};
  if (command.counts_epochs) {
    command = count_epochs(words, command, launch.world_size, *fm::engine::ranks_of_host(*world),
                           fm::engine::asked_to_end(&*process.signals));
    command.options.device = device;  // "auto" is decided
  }
  command.options.offload.disk.pace = &process.pace;
  command.options.offload.disk.on_hang = end_by;
  const fm::cli::LauncherJobs jobs = fm::cli::launcher_jobs(fm::core::process_environment());
  command.options.jobs = jobs.all;
  fm::engine::go_on_with_job(command.options, jobs.restarted, *world);
  fm::engine::choose_rows(command.options);
  const fm::model::OpenedModel opened = fm::engine::open_run_model(command.options);
  if (launch.world_rank == 0) add_folder_notes(command, opened.facts);
  const int code = fm::engine::train(command.options, opened, *world, context);
  fm::comm::shut_down();
  return code;
}

int run(const std::vector<std::string>& words, Process& process) {
  Command command = fm::cli::parse_command(words);
  if (command.action == Action::kHelp) return print(fm::cli::train_help_text()), 0;
  if (command.action == Action::kVersion) return print(fm::cli::version_text()), 0;
  if (command.action == Action::kWhere) {
    return print(fm::launch::where_text(with_flags(command))), 0;
  }
  const fm::comm::LaunchInfo launch = fm::launch::detect_launch(with_flags(command));
  process.ending.set_world_rank(launch.world_rank);
  fm::engine::choose_token_rows(command.options);
  process.cores = fm::machine::take_cores(launch, command.threads);
  set_threads(process.cores.threads);
  if (command.counts_epochs && command.action != Action::kTrain) {
    command = count_epochs(words, command, launch.world_size, *fm::comm::make_solo(), nullptr);
  }
  switch (command.action) {
    case Action::kHelp:
    case Action::kVersion:
    case Action::kWhere: return 0;
    case Action::kReport: return print_report(process.cores.why);
    case Action::kPlan: return print_plan(command, launch);
    case Action::kPrintConfig: return print_config(command, launch);
    case Action::kTrain: return train(words, command, launch, process);
  }
  return 1;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);  // launchers read lines from a pipe
  std::signal(SIGPIPE, SIG_IGN);                   // a log that nobody reads any more
  std::signal(SIGXFSZ, SIG_IGN);                   // past `ulimit -f` a write fails, and says so
  Process process;
  process.ending.set_world_rank(fm::launch::rank_if_known(fm::core::process_environment()));
  const int code = process.ending.run([&] { return run({words + 1, words + count}, process); });
  // Destructors would let a SIGTERM through that waits in the queue: a launcher that stops the
  // others because one failed must not change this rank's exit code.
  std::fflush(nullptr);
  end_now(process, code);
}

#include "tests/system/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/check.h"
#include "tests/oracle/python.h"
#include "tests/system/text_files.h"

extern char** environ;

namespace fm::system {
namespace {

namespace fs = std::filesystem;
using core::concat;

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment without what launchers leave in it, and `variables`.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  constexpr const char* kForeign[] = {"RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_",
                                      "OMPI_", "PMIX_",       "PMI_",   "SLURM_",
                                      "ORTE_", "FME_",        "OMP_",   "TORCHELASTIC_"};
  std::vector<std::string> all{"OMP_NUM_THREADS=1", "OMPI_ALLOW_RUN_AS_ROOT=1",
                               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (std::ranges::none_of(kForeign, [&](const char* p) { return entry.starts_with(p); })) {
      all.push_back(entry);
    }
  }
  all.insert(all.end(), variables.begin(), variables.end());
  return all;
}

// Variables of a process as text: each ends with a zero byte, one stands in front of the first.
// "" for a process that has ended, even if nobody has waited for it.
std::string environment_of(const fs::path& process) {
  return std::string(1, '\0') + content_of(process / "environ");
}

bool has_entry(const std::string& environment, const std::string& entry) {
  const std::string zero(1, '\0');
  return environment.find(zero + entry + zero) != std::string::npos;
}

std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const fs::directory_entry& process : fs::directory_iterator("/proc", error)) {
    const std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (has_entry(environment_of(process.path()), entry)) found.push_back(std::stoi(name));
  }
  return found;
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool eventually(int limit_ms, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::string name_of(Starter starter) {
  switch (starter) {
    case Starter::kAlone: return "Alone";
    case Starter::kByHand: return "ByHand";
    case Starter::kMpirun: return "Mpirun";
    case Starter::kTorchrun: return "Torchrun";
  }
  return "?";
}

Job::Job(Launch launch, const fs::path& folder)
    : launch_(std::move(launch)), folder_(folder), mark_("FM_SYSTEM_JOB=" + folder.string()) {
  fs::create_directories(folder_);
  const std::string count = std::to_string(launch_.ranks);
  std::vector<std::string> words;
  switch (launch_.starter) {
    case Starter::kAlone: break;
    case Starter::kByHand: {
      for (int rank = 0; rank < launch_.ranks; ++rank) {
        const std::size_t at = static_cast<std::size_t>(rank);
        start(launch_.words, {"MASTER_ADDR=127.0.0.1", concat("MASTER_PORT=", port_.number()),
                              "WORLD_SIZE=" + count, concat("RANK=", rank),
                              concat("LOCAL_RANK=", rank), "LOCAL_WORLD_SIZE=" + count,
                              "FME_HOST=" + (at < launch_.hosts.size() ? launch_.hosts[at] : "")});
      }
      return;
    }
    case Starter::kMpirun:
      words = {FM_MPIRUN, "--oversubscribe", "--bind-to", "none", "-np", count};
      break;
    case Starter::kTorchrun:
      words = {oracle::python(),   "-m", "torch.distributed.run", "--standalone", "--no-python",
               "--nproc-per-node", count};
      break;
  }
  words.insert(words.end(), launch_.words.begin(), launch_.words.end());
  start(words, {});
}

Job::~Job() {
  for (int round = 0; round < 3; ++round) {  // a launcher may start one more while it dies
    for (const pid_t pid : alive()) kill(pid, SIGKILL);
    if (all_gone(10'000)) break;
  }
  for (std::size_t i = 0; i < started_.size(); ++i) {
    if (codes_[i] < 0) waitpid(started_[i], nullptr, 0);
  }
}

void Job::start(std::vector<std::string> words, std::vector<std::string> variables) {
  variables.push_back(mark_);
  variables.insert(variables.end(), launch_.variables.begin(), launch_.variables.end());
  std::vector<std::string> settings = environment_with(variables);
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> envp = pointers_to(settings);
  const std::string out = folder_ / concat("out.", started_.size());
  const std::string err = folder_ / concat("err.", started_.size());
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  started_.push_back(pid);
  codes_.push_back(-1);
}

pid_t Job::rank_pid(int rank) const {
  if (launch_.starter == Starter::kAlone || launch_.starter == Starter::kByHand) {
    return started_.at(static_cast<std::size_t>(rank));
  }
  const std::string variable =
      launch_.starter == Starter::kMpirun ? "OMPI_COMM_WORLD_RANK=" : "RANK=";
  pid_t found = 0;
  const bool there = eventually(kLimitMs, [&] {
    for (const pid_t pid : alive()) {
      const fs::path process = concat("/proc/", pid);
      const bool is_rank = has_entry(environment_of(process), concat(variable, rank));
      if (is_rank) found = pid;
    }
    return found != 0;
  });
  if (!there) throw std::runtime_error(concat("no process of rank ", rank, "\n", written("err")));
  return found;
}

std::vector<pid_t> Job::alive() const { return processes_with(mark_); }

void Job::reap() {
  for (std::size_t i = 0; i < started_.size(); ++i) {
    int status = 0;
    if (codes_[i] < 0 && waitpid(started_[i], &status, WNOHANG) == started_[i]) {
      codes_[i] = exit_code_of(status);
    }
  }
}

bool Job::all_gone(int limit_ms) {
  return eventually(limit_ms, [this] {
    reap();
    return std::ranges::count(codes_, -1) == 0 && alive().empty();
  });
}

Ended Job::wait(int limit_ms) {
  const bool gone = all_gone(limit_ms);
  const std::string all = written("out") + written("err");
  if (!gone) throw std::runtime_error(concat("still running after ", limit_ms, " ms:\n", all));
  if (port_.listened_at()) {
    throw std::runtime_error(concat("port ", port_.number(), " still listens:\n", all));
  }
  return {codes_, written("out"), written("err")};
}

std::string Job::written(const std::string& stream) const {
  std::string all;
  for (std::size_t i = 0; i < started_.size(); ++i) {
    all += content_of(folder_ / concat(stream, ".", i));
  }
  return all;
}

}  // namespace fm::system

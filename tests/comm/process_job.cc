#include "tests/comm/process_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "comm/waiting.h"
#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/oracle/python.h"

extern char** environ;

namespace fm::comm {
namespace {

bool eventually(int limit_ms, const std::function<bool()>& condition) {
  const Deadline deadline(limit_ms);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A killed child of somebody else may stay a zombie for a while: it is gone all the same.
bool gone(pid_t pid) {
  if (kill(pid, 0) != 0) return errno == ESRCH;
  const std::string status = content_of(core::concat("/proc/", pid, "/stat"));
  const std::size_t name_end = status.rfind(')');
  return name_end == std::string::npos || status.substr(name_end + 2, 1) == "Z";
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment without what launchers leave in it, and `variables`.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  constexpr const char* kForeign[] = {"RANK=", "WORLD_SIZE=", "LOCAL_", "MASTER_", "OMPI_",
                                      "PMIX_", "PMI_",        "SLURM_", "PET_",    "TORCHELASTIC_"};
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string entry = *at;
    if (std::ranges::none_of(kForeign, [&](const char* p) { return entry.starts_with(p); })) {
      all.push_back(entry);
    }
  }
  all.insert(all.end(), variables.begin(), variables.end());
  return all;
}

}  // namespace

std::string name_of(Starter starter) {
  switch (starter) {
    case Starter::kByHand: return "ByHand";
    case Starter::kMpirun: return "Mpirun";
    case Starter::kTorchrun: return "Torchrun";
  }
  return "?";
}

ProcessJob::ProcessJob(Starter starter, int ranks, const std::vector<std::string>& arguments,
                       const Surroundings& surroundings)
    : starter_(starter), ranks_(ranks) {
  const std::vector<std::string>& hosts = surroundings.hosts;
  std::string pattern = (std::filesystem::temp_directory_path() / "fm_comm_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for outputs");
  folder_ = pattern;
  rank_pids_.assign(static_cast<std::size_t>(ranks), 0);
  std::vector<std::string> command{FM_WORLD_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string folder = "FM_TEST_DIR=" + folder_;
  std::vector<std::string> launcher;
  const std::string count = std::to_string(ranks);
  switch (starter) {
    case Starter::kByHand: {
      const std::string port = core::concat("MASTER_PORT=", port_.number());
      for (int rank = 0; rank < ranks; ++rank) {
        const std::string host = hosts.empty() ? "" : hosts[static_cast<std::size_t>(rank)];
        std::vector<std::string> variables = surroundings.variables;
        variables.insert(variables.end(),
                         {folder, port, "MASTER_ADDR=127.0.0.1", "WORLD_SIZE=" + count,
                          core::concat("RANK=", rank), "FME_HOST=" + host});
        start(command, variables);
      }
      return;
    }
    case Starter::kMpirun: command = mpirun_words(command, hosts); break;
    case Starter::kTorchrun:
      launcher = {oracle::python(),   "-m", "torch.distributed.run", "--standalone", "--no-python",
                  "--nproc-per-node", count};
      break;
  }
  command.insert(command.begin(), launcher.begin(), launcher.end());
  std::vector<std::string> settings = {folder, "OMPI_ALLOW_RUN_AS_ROOT=1",
                                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  settings.insert(settings.end(), surroundings.variables.begin(), surroundings.variables.end());
  start(command, settings);
}

// mpirun options -np N program : -np N program ...
std::vector<std::string> ProcessJob::mpirun_words(const std::vector<std::string>& command,
                                                  const std::vector<std::string>& hosts) const {
  std::vector<std::string> words{FM_MPIRUN, "--oversubscribe", "--bind-to", "none"};
  const std::vector<std::string> all =
      hosts.empty() ? std::vector<std::string>(static_cast<std::size_t>(ranks_)) : hosts;
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end =
        std::find_if(begin, all.end(), [&](const auto& host) { return host != *begin; });
    if (begin != all.begin()) words.emplace_back(":");
    words.insert(words.end(), {"-np", std::to_string(end - begin), "-x", "FME_HOST=" + *begin});
    words.insert(words.end(), command.begin(), command.end());
    begin = end;
  }
  return words;
}

ProcessJob::~ProcessJob() {
  for (std::size_t i = exit_codes_.size(); i < started_.size(); ++i) kill(-started_[i], SIGKILL);
  wait(kWatchdogMs);
  for (const pid_t pid : rank_pids_) {
    if (pid != 0 && !gone(pid)) kill(pid, SIGKILL);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void ProcessJob::start(const std::vector<std::string>& command,
                       const std::vector<std::string>& variables) {
  std::vector<std::string> words = command;
  std::vector<std::string> settings = environment_with(variables);
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> envp = pointers_to(settings);
  const std::string path = core::concat(folder_, "/out.", started_.size());
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    setpgid(0, 0);
    const int out = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  started_.push_back(pid);
}

pid_t ProcessJob::rank_pid(int rank) {
  pid_t& pid = rank_pids_.at(static_cast<std::size_t>(rank));
  const std::string name = core::concat("pid.", rank);
  if (!await_file(name)) {
    throw std::runtime_error(core::concat("rank ", rank, " never connected:\n", output()));
  }
  pid = std::stoi(content_of(folder_ + "/" + name));
  return pid;
}

bool ProcessJob::await_file(const std::string& name) const {
  return eventually(kWatchdogMs, [&] { return std::filesystem::exists(folder_ + "/" + name); });
}

void ProcessJob::make_file(const std::string& name) const { std::ofstream(folder_ + "/" + name); }

bool ProcessJob::wait(int limit_ms) {
  const Deadline deadline(limit_ms);
  while (exit_codes_.size() < started_.size()) {
    int status = 0;
    const pid_t pid = started_[exit_codes_.size()];
    const bool ended =
        eventually(deadline.left_ms(), [&] { return waitpid(pid, &status, WNOHANG) == pid; });
    if (!ended) return false;
    exit_codes_.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return true;
}

bool ProcessJob::all_ranks_gone(int limit_ms) const {
  return eventually(limit_ms, [&] { return std::ranges::all_of(rank_pids_, gone); });
}

std::string ProcessJob::output(int started) const {
  return content_of(core::concat(folder_, "/out.", started));
}

std::string ProcessJob::output() const {
  std::string all;
  for (std::size_t i = 0; i < started_.size(); ++i) all += output(static_cast<int>(i));
  return all;
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace fm::comm

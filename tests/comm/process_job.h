// Starts world_program as a job of several processes and watches what becomes of it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/comm/free_port.h"

namespace fm::comm {

enum class Starter : std::uint8_t { kByHand, kMpirun, kTorchrun };
std::string name_of(Starter starter);

struct Surroundings {
  std::vector<std::string> variables = {};  // NAME=value, for a launcher and its ranks
  // FME_HOST of every rank, or nothing; under mpirun ranks of one host are neighbours.
  std::vector<std::string> hosts = {};
};

// Invariant: all processes of the job live in process groups of their own.
// Lifetime:  the destructor kills what is still alive and removes the folder of outputs.
class ProcessJob {
 public:
  ProcessJob(Starter starter, int ranks, const std::vector<std::string>& arguments,
             const Surroundings& surroundings = {});
  ~ProcessJob();
  ProcessJob(const ProcessJob&) = delete;
  ProcessJob& operator=(const ProcessJob&) = delete;

  // Started processes: by hand one per rank, else the launcher.
  const std::vector<pid_t>& started() const { return started_; }
  // Pid of a rank, once it is connected. Throws std::runtime_error when it does not come.
  pid_t rank_pid(int rank);
  // What ranks and tests tell each other by files: false when nobody makes this one.
  bool await_file(const std::string& name) const;
  void make_file(const std::string& name) const;
  // Waits until the started processes (ranks, or mpirun or torchrun) have ended; false when some
  // still live after `limit_ms`.
  bool wait(int limit_ms);
  // True when the process of no rank is alive (all must have been asked for by rank_pid).
  bool all_ranks_gone(int limit_ms) const;
  // Exit codes of what was started: by hand one per rank, otherwise the launcher's; 128 + signal
  // when killed.
  const std::vector<int>& exit_codes() const { return exit_codes_; }
  // Standard error and output, of one started process or of all.
  std::string output(int started) const;
  std::string output() const;

 private:
  std::vector<std::string> mpirun_words(const std::vector<std::string>& command,
                                        const std::vector<std::string>& hosts) const;
  void start(const std::vector<std::string>& command, const std::vector<std::string>& variables);

  Starter starter_;
  int ranks_;
  HeldPort port_;  // where ranks started by hand meet
  std::string folder_;
  std::vector<pid_t> started_;
  std::vector<int> exit_codes_;
  std::vector<pid_t> rank_pids_;
};

// How often `part` stands in `text`.
int occurrences(const std::string& text, const std::string& part);

}  // namespace fm::comm

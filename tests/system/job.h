// One start of a program as a user makes it: alone, as ranks by hand, under mpirun or torchrun.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/comm/free_port.h"

namespace fm::system {

enum class Starter : std::uint8_t { kAlone, kByHand, kMpirun, kTorchrun };
std::string name_of(Starter starter);

// Of one job, which takes seconds: a watchdog on a busy machine. It ends before a rank's own wait
// for another one (--timeout_s, 600 s), so that such a wait is seen.
inline constexpr int kLimitMs = 300'000;

struct Launch {
  Starter starter = Starter::kAlone;
  int ranks = 1;
  std::vector<std::string> words;       // the program and its arguments
  std::vector<std::string> variables;   // NAME=value, besides those of the starter
  std::vector<std::string> hosts = {};  // by hand: FME_HOST of every rank, or nothing
};

// What is known of a job that has ended.
struct Ended {
  std::vector<int> codes;  // by hand one per rank, else one; 128 + signal when killed
  std::string out;         // of all processes, in order of the started ones
  std::string err;
};

// Invariant: every process of the job, grandchildren too, carries `mark` in its environment, by
//            which it is found in /proc whatever its group and parent.
// Lifetime:  the destructor kills what is still alive.
class Job {
 public:
  // `folder`: new, for outputs; its path is the mark.
  Job(Launch launch, const std::filesystem::path& folder);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Started processes: by hand one per rank, else one (mpirun, torchrun or the program).
  const std::vector<pid_t>& started() const { return started_; }
  // Pid of a rank of the program. Throws std::runtime_error after kLimitMs.
  pid_t rank_pid(int rank) const;
  // True when no process of the job is alive.
  bool all_gone(int limit_ms);
  // Waits until every process has ended; throws std::runtime_error with what was written when one
  // still lives at the limit, or when a port of the job still listens.
  Ended wait(int limit_ms);
  // What the started processes have written so far: to "out" or "err".
  std::string written(const std::string& stream) const;

 private:
  void start(std::vector<std::string> words, std::vector<std::string> variables);
  void reap();
  std::vector<pid_t> alive() const;

  Launch launch_;
  std::filesystem::path folder_;
  std::string mark_;
  comm::HeldPort port_;  // the meeting point of ranks started by hand
  std::vector<pid_t> started_;
  std::vector<int> codes_;  // -1: has not ended
};

// Waits for a condition; false when the limit passes first.
bool eventually(int limit_ms, const std::function<bool()>& condition);

}  // namespace fm::system

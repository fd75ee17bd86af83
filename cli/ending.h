// How a program ends when something is wrong: one line on stderr and the exit code; under torchrun
// also the error file that its agent reads (torch/distributed/elastic/multiprocessing/errors).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "comm/roster.h"
#include "core/check.h"

namespace fm::cli {

// The JSON of TORCHELASTIC_ERROR_FILE: valid whatever bytes the message holds.
std::string error_file_json(const std::string& message, long long epoch_seconds);

// Before the ranks have met, no rank learns of the errors of others, so every rank prints its own.
// After that errors of the user (core::UserError: exit codes 10, 11, and 25 where the plan does not
// fit the memory) are printed once: by the rank that speaks, whether the error is its own or
// another rank reported it. Every rank prints errors of a machine.
//
// A death never waits: other ranks are told first, a line that nobody reads is left out, and the
// process ends in any case within a limit of its own.
//
// Invariant: a process announces one failure, the first: one line at most, one error file.
// Thread:    run() belongs to the main thread; end_by() and follow() may be called by any thread.
// Lifetime:  outlives the communicators whose watch calls follow().
class Ending {
 public:
  explicit Ending(std::string program) : program_(std::move(program)) {}

  // Ranks above 0 print their rank in front of their messages.
  void set_world_rank(int world_rank) { world_rank_ = world_rank; }
  // Whether this rank speaks for errors of the user, once the ranks have met.
  void set_speaks(bool speaks) { speaks_ = speaks; }
  // Limits the end of this process; 0: it may take for ever.
  void set_end_ms(int end_ms) { end_ms_ = end_ms; }
  // Tells where the main thread is, "" when it is not known: called by any thread when the rank
  // ends because another one was lost or is late (exit codes 20 and 21).
  void set_whereabouts(std::function<std::string()> whereabouts) {
    whereabouts_ = std::move(whereabouts);
  }
  // Called with the exit code before the end is limited, by any thread: a process that its limit or
  // another one ends has then written down why.
  void set_on_limit(std::function<void(int)> on_limit) { on_limit_ = std::move(on_limit); }
  // Called with (exit code, message) when this rank stops because of an error.
  void set_shut_down(std::function<void(int, const std::string&)> shut_down) {
    shut_down_ = std::move(shut_down);
  }

  // Runs `body` and turns what it throws into an exit code: core::Error its own, std::bad_alloc
  // 25, anything else 1.
  int run(const std::function<int()>& body);
  // What the exception that is handled now means: announced and told to the other ranks, and the
  // exit code. For whoever stands deeper than run(), before what would block is destroyed.
  int fail_now();
  // From now on this process lives for end_ms at most, whatever its end waits for.
  void limit_end(int exit_code);
  // "fmengine-train: rank 3: message", as ranks above 0 say it; of this rank.
  std::string line_of(const std::string& message) const { return line_of(world_rank_, message); }

  // This rank fails on a thread of its own: prints why, tells other ranks, and returns the exit
  // code for this process, which the caller ends at once.
  int end_by(const core::MachineError& error);
  // Another rank was lost: prints it and returns the exit code for this process, which the caller
  // ends at once.
  int follow(const comm::PeerLoss& loss);

 private:
  enum class Said : std::uint8_t { kOnce, kByEverybody };

  // "fmengine-train: rank 3: message"
  std::string line_of(int world_rank, const std::string& message) const;
  int fail(int exit_code, const std::string& what, Said said);
  std::string place_at(int exit_code) const;
  void announce(const std::string& line, const std::string& message, Said said);

  const std::string program_;
  int world_rank_ = 0;
  int end_ms_ = 0;
  std::atomic<bool> speaks_{true};
  std::atomic<bool> limited_{false};
  std::mutex mutex_;  // one announcement is whole before the process may end
  bool announced_ = false;
  std::function<void(int, const std::string&)> shut_down_;
  std::function<std::string()> whereabouts_;
  std::function<void(int)> on_limit_;
};

}  // namespace fm::cli

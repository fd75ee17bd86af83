// A rank that slept while another run took its output directory must not write there any more.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace fm::checkpoint {

// The right of a rank to write below an output directory. It ends for ever when LOCK names another
// start than the one whose words it was given. A rank that was stopped, or cut off from the others,
// has no lock of its own to lose: rank 0 held it, and is gone.
//
// Invariant: guards nothing before arm(), nor while LOCK has not been seen with these words: ranks
//            whose hosts do not share the directory see another file or none.
// Thread:    any.
// Lifetime:  copies share one state.
class OutputFence {
 public:
  OutputFence();

  // `holder`: OutputLock::holder() of rank 0; "": nothing is guarded.
  void arm(const std::filesystem::path& output_dir, const std::string& holder) const;
  // Reads LOCK anew. What newer run owns the directory, for a person to read; "" while it is ours.
  std::string problem() const;
  // Before a write: MachineError (13) with the problem.
  void check() const;
  // The same once a second at most: for lines of steps.
  void check_each_second() const;

 private:
  struct FenceState;
  std::shared_ptr<FenceState> state_;
};

}  // namespace fm::checkpoint

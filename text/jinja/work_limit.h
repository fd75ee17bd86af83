// What the operations of a rendering cost besides its steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace fm::jinja {

// Statements and expressions that one rendering may take; kStepBytes of what operations read or
// write count as one more, and as much memory as that is all that its values can have together.
inline constexpr std::int64_t kMostSteps = 5'000'000;
inline constexpr std::int64_t kStepBytes = 128;

// What copying, comparing or looking at one item or entry costs.
inline constexpr std::size_t kItemBytes = 32;

// What the rendering of this thread may still cost; without one there is no limit.
inline thread_local constinit std::int64_t work_left = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void refuse_work();

// `bytes` are about to be read or written. Throws Failure where the rendering may do no more.
inline void count_work(std::size_t bytes) {
  work_left -= static_cast<std::int64_t>(bytes);
  if (work_left < 0) refuse_work();
}

// The limit of this thread, as long as it lives. Within another one both hold: what is done in the
// inner one counts for the outer one, too.
class LimitedWork {
 public:
  explicit LimitedWork(std::int64_t most = kMostSteps * kStepBytes)
      : before_(work_left), most_(std::min(most, work_left)) {
    work_left = most_;
  }
  LimitedWork(const LimitedWork&) = delete;
  LimitedWork& operator=(const LimitedWork&) = delete;
  ~LimitedWork() { work_left = before_ - (most_ - work_left); }

 private:
  std::int64_t before_;
  std::int64_t most_;
};

}  // namespace fm::jinja

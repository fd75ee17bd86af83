// Fault points: places where a test may kill, delay or fail this process on purpose.
// Off unless the environment variable FME_FAULT is set; then every armed fault is shouted on
// stderr. Grammar (several faults are separated by ';', rank and step may be left out = any):
//   rank=1,step=57,point=ckpt.S3,action=kill
//   action: kill | exit:N | enospc | eio | sleep:MS | throw | nan | signal:N
#pragma once

#include <cstdint>
#include <string_view>

namespace fm::core {

// What the caller must pretend happened; kill, exit, sleep, throw and signal act on the spot.
enum class FaultEffect : std::uint8_t { kNone, kNoSpace, kIoError, kNan };

struct FaultSite {
  std::string_view point;
  int rank = 0;
  std::int64_t step = 0;
};

// Nothing armed: one atomic load. Throws BugError for the action `throw`, UserError (10) when
// FME_FAULT cannot be understood (at the first call).
FaultEffect fault(const FaultSite& site);

// Replaces what is armed ("" disarms): for tests. The only mutable registry of the program.
void arm_faults(std::string_view text);

}  // namespace fm::core

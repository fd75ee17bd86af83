// Exit codes are a contract with schedulers and supervisors (docs/exit-codes.md).
#pragma once

namespace fm::core {

enum class ExitCode : int {
  kFinished = 0,
  kOurFault = 1,           // BugError: a defect of fmengine
  kConfigError = 10,       // flags, JSON, sizes that do not fit together
  kDataError = 11,         // a file that is missing, truncated or holds wrong values
  kNoCheckpoint = 12,      // a checkpoint was expected and none is loadable
  kLocked = 13,            // the output directory belongs to another run
  kRendezvousFailed = 14,  // ranks did not find each other
  kPeerLost = 20,          // another rank died or left
  kHang = 21,              // a wait ran past its limit
  kMismatch = 22,          // ranks disagree about a collective
  kNumericLimit = 23,      // too many skipped steps
  kOutOfMemory = 25,
  kStorageFailed = 26,
  kPreempted = 75,  // SIGTERM: state saved, start again
};

}  // namespace fm::core

// Errors: three kinds for three causes, and the exit codes that they become.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace fm::core {

// Exit codes are a contract with schedulers and supervisors (docs/exit-codes.md).
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
  kDeviceFailed = 27,
  kPreempted = 75,  // SIGTERM: state saved, start again
};

// Three kinds of errors: the user is wrong, we are wrong, the machine or a peer is wrong.
// Message order everywhere: what is required; what to do; values last. Only main ends the process.

// Control characters but newlines and tabs as \u00XX: words of files come into messages, a zero
// byte would end one, and others steer terminals.
std::string readable(const std::string& text);

// Base of everything fmengine throws on purpose; main turns it into one line and its exit code.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message)
      : std::runtime_error(readable(message)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

class UserError : public Error {  // exit code 10 (configuration), 11 (data) or 25 (the plan)
 public:
  using Error::Error;
};

class BugError : public Error {  // exit code 1
 public:
  explicit BugError(const std::string& message) : Error(ExitCode::kOurFault, message) {}
};

class MachineError : public Error {  // exit codes 12 to 27: a peer, a disk, a network, a GPU
 public:
  using Error::Error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[noreturn]] void throw_bug(const char* file, int line, const char* condition,
                            const std::string& message);

}  // namespace fm::core

// The configuration is wrong (exit code 10).
#define FM_USER_CHECK(condition, ...)                                 \
  do {                                                                \
    if (!(condition)) {                                               \
      throw ::fm::core::UserError(::fm::core::ExitCode::kConfigError, \
                                  ::fm::core::concat(__VA_ARGS__));   \
    }                                                                 \
  } while (false)

// A file of the user is wrong (exit code 11).
#define FM_DATA_CHECK(condition, ...)                               \
  do {                                                              \
    if (!(condition)) {                                             \
      throw ::fm::core::UserError(::fm::core::ExitCode::kDataError, \
                                  ::fm::core::concat(__VA_ARGS__)); \
    }                                                               \
  } while (false)

// fmengine itself is wrong; never for anything that input can cause.
#define FM_CHECK(condition, ...)                                                              \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      ::fm::core::throw_bug(__FILE__, __LINE__, #condition, ::fm::core::concat(__VA_ARGS__)); \
    }                                                                                         \
  } while (false)

// The machine or a peer is wrong; `code` is an ExitCode.
#define FM_MACHINE_CHECK(condition, code, ...)                                 \
  do {                                                                         \
    if (!(condition)) {                                                        \
      throw ::fm::core::MachineError((code), ::fm::core::concat(__VA_ARGS__)); \
    }                                                                          \
  } while (false)

#include "cli/output_file.h"

#include <csignal>
#include <filesystem>

#include "core/check.h"

namespace fm::cli {
namespace {

constexpr int kReaderMs = 60'000;  // as long as a file is waited for that comes through a pipe

// SIGINT, SIGTERM and SIGHUP come when it goes.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
    pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::string written(const core::OutputName& name, const std::string& path,
                    const std::string& text) {
  core::OutputFile file(path, kReaderMs);
  core::check_output(name, path, file.error());
  file.add(text);
  return file.finish();
}

bool is_device(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_other(path, ignored);  // a pipe or a device, which may not end
}

}  // namespace

void write_output(const core::OutputName& name, const std::string& path, const std::string& text) {
  std::string problem;
  if (is_device(path)) {
    problem = written(name, path, text);
  } else {
    const SignalsHeld held;
    problem = written(name, path, text);
  }
  FM_MACHINE_CHECK(problem.empty(), core::ExitCode::kStorageFailed, path, ": ", problem);
}

}  // namespace fm::cli

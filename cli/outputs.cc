#include "cli/outputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
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

void hold_standard_files() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest number that is free is this one; it can be used for the opposite alone.
    const int held = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (held >= 0 && held != fd) ::close(held);
  }
}

void print(std::string_view text) {
  const bool taken =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  FM_MACHINE_CHECK(taken, core::ExitCode::kStorageFailed,
                   "standard output must take what is printed; make room, or send it elsewhere (",
                   std::strerror(errno), ")");
}

void print_line(std::string_view text) {
  print(text);
  if (text.empty() || text.back() != '\n') print("\n");
}

}  // namespace fm::cli

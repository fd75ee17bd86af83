#include "core/process.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "core/check.h"

namespace fm::core {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

void print_error_line(std::string_view line, int wait_ms) {
  constexpr std::size_t kNeverBlocks = 4096;  // bytes, into a pipe that poll() calls writable
  const std::string text = std::string(line) + "\n";
  std::string_view left = text;
  while (!left.empty()) {
    pollfd entry{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const int ready = poll(&entry, 1, wait_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    const std::string_view chunk = left.substr(0, kNeverBlocks);
    const ssize_t written = write(STDERR_FILENO, chunk.data(), chunk.size());
    if (written <= 0 && errno != EINTR) return;  // closed
    left.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

void end_process_in(int delay_ms, int exit_code) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
      _exit(exit_code);
    }).detach();
  } catch (const std::system_error&) {  // no thread is left: by SIGALRM, with its code
    alarm(static_cast<unsigned>(delay_ms / 1'000 + 1));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

std::string boot_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

// "PID (NAME) STATE ...": the name may hold anything, so the last parenthesis counts.
std::vector<std::string> process_stat(std::int64_t pid) {
  std::string line;
  std::getline(std::ifstream(concat("/proc/", pid, "/stat")), line);
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  return {std::istream_iterator<std::string>(fields), {}};
}

void* late_symbol(const char* library, const char* name) {
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  const std::string problem = loaded != nullptr ? "" : dlerror();
  // The words of glibc's loader.
  const bool full = problem.find("allocate memory") != std::string::npos ||
                    problem.find("failed to map segment") != std::string::npos;
  FM_MACHINE_CHECK(!full, ExitCode::kOutOfMemory, "the library ", library,
                   " and LibTorch behind it need address space; raise `ulimit -v` or free memory (",
                   problem, ")");
  FM_USER_CHECK(loaded != nullptr, "the library ", library,
                " and LibTorch behind it must be loadable; build or install fmengine again (",
                problem, ")");
  void* const found = dlsym(loaded, name);
  FM_CHECK(found != nullptr, library, " holds no ", name);
  return found;
}

}  // namespace fm::core

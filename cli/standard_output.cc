#include "cli/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/check.h"

namespace fm::cli {

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

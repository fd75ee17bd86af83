#include "cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/text.h"

namespace fm::cli {
namespace {

namespace fs = std::filesystem;

std::string stdout_of_parent() { return "/proc/" + std::to_string(getppid()) + "/fd/1"; }

int columns_of_parent() {
  const int fd = ::open(stdout_of_parent().c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return 0;
  const int columns = columns_of(fd);
  ::close(fd);
  return columns;
}

int columns_of_variable() {
  const char* const text = std::getenv("COLUMNS");
  const auto value = core::integer_of(text == nullptr ? "" : text);
  return value && *value > 0 && *value < 10'000 ? static_cast<int>(*value) : 0;
}

}  // namespace

int columns_of(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Terminal terminal_of(const comm::LaunchInfo& launch) {
  if (isatty(STDOUT_FILENO) != 1) return {};
  const bool mpirun = launch.launcher == comm::Launcher::kOpenMpi;
  std::error_code none;
  if (mpirun && !fs::read_symlink(stdout_of_parent(), none).string().starts_with("/dev/pts/")) {
    return {};
  }
  return {true, [mpirun] {
            constexpr int kUsual = 80;
            int columns = columns_of(STDOUT_FILENO);
            if (columns == 0 && mpirun) columns = columns_of_parent();
            if (columns == 0) columns = columns_of(STDERR_FILENO);
            if (columns == 0) columns = columns_of_variable();
            return columns == 0 ? kUsual : columns;
          }};
}

std::string programs_prefix() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return "";
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : core::split(path == nullptr ? "" : path, ':')) {
    if (!folder.empty() && fs::equivalent(folder, here, error)) return "";
  }
  const std::string near = fs::proximate(here, error).string();
  if (error || near.starts_with("..")) return here.string() + "/";
  return near == "." ? "./" : near + "/";
}

}  // namespace fm::cli

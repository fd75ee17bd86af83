#include "observe/monitor/text_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace fm::monitor {
namespace {

// False and errno when it fails.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

std::string append_whole(const std::filesystem::path& file, std::string_view head,
                         std::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return error.message();
  // A pipe that nobody reads is a reason, not a wait.
  const int fd =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
  if (fd < 0) return std::strerror(errno);
  std::string problem;
  struct stat before {};
  if (fstat(fd, &before) != 0 || (before.st_size == 0 && !write_all(fd, head)) ||
      !write_all(fd, text)) {
    problem = std::strerror(errno);
    if (ftruncate(fd, before.st_size) != 0) problem += ", and its end is torn";
  }
  ::close(fd);
  return problem;
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.begin(), std::to_chars(text.begin(), text.end(), value).ptr};
}

}  // namespace fm::monitor

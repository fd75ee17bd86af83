#include "monitor/text_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
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

int open_to_write(const std::filesystem::path& file, int how) {
  return ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644);
}

}  // namespace

std::string append_whole(const std::filesystem::path& file, std::string_view head,
                         std::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return error.message();
  const int fd = open_to_write(file, O_APPEND);
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

std::string replace_whole(const std::filesystem::path& file, std::string_view text) {
  const std::string fresh = file.string() + ".new";
  const int fd = open_to_write(fresh, O_TRUNC);
  if (fd < 0) return std::strerror(errno);
  const bool whole = write_all(fd, text);
  std::string problem = whole ? "" : std::strerror(errno);
  ::close(fd);
  if (whole && std::rename(fresh.c_str(), file.c_str()) != 0) problem = std::strerror(errno);
  if (!problem.empty()) ::unlink(fresh.c_str());
  return problem;
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  return {text.begin(), std::to_chars(text.begin(), text.end(), value).ptr};
}

}  // namespace fm::monitor

#include "core/peak_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

namespace fm::core {

Bytes peak_memory() {
  std::array<char, 4096> text{};
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : ::read(file, text.data(), text.size());
  if (file >= 0) ::close(file);
  const std::string_view status(text.data(), static_cast<std::size_t>(size < 0 ? 0 : size));
  constexpr std::string_view kKey = "VmHWM:";
  const std::size_t line = status.find(kKey);
  const std::size_t digits =
      line == std::string_view::npos ? line : status.find_first_of("0123456789", line);
  if (digits != std::string_view::npos) {
    std::int64_t kilobytes = 0;
    std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
    return Bytes(kilobytes * 1024);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Bytes(usage.ru_maxrss * 1024L);
}

}  // namespace fm::core

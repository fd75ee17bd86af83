#include "engine/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/named_file.h"

namespace fm::engine {

MetricsFile::MetricsFile(std::filesystem::path path) : path_(std::move(path)), fd_(open_named()) {
  FM_MACHINE_CHECK(fd_ >= 0, core::ExitCode::kStorageFailed,
                   "the output directory must be writable; choose another --output_dir (",
                   path_.string(), ": ", std::strerror(errno), ")");
  end_ = end_of_last_line();
  const bool cut = lseek(fd_, 0, SEEK_END) == end_ || ftruncate(fd_, end_) == 0;
  FM_MACHINE_CHECK(cut, core::ExitCode::kStorageFailed,
                   "the torn last line must be cut off; make the file writable or choose another "
                   "--output_dir (",
                   path_.string(), ": ", std::strerror(errno), ")");
}

MetricsFile::~MetricsFile() { close(fd_); }

int MetricsFile::open_named() const {
  return open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

std::string MetricsFile::append(const std::string& line) {
  if (!core::leads_to(path_, fd_)) {
    const int again = open_named();
    if (again < 0) return std::strerror(errno);
    close(std::exchange(fd_, again));
    end_ = std::max<off_t>(lseek(fd_, 0, SEEK_END), 0);
  }
  const std::string text = line + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(fd_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      std::string reason = count < 0 ? std::strerror(errno) : "nothing was written";
      // A device has no length to cut; where cutting fails, the next opening does it.
      if (done > 0 && ftruncate(fd_, end_) != 0) return reason + ", and its last line is torn";
      return reason;
    }
    done += static_cast<std::size_t>(count);
  }
  end_ += static_cast<off_t>(text.size());
  return "";
}

// Looks for the last newline from the end, block by block.
off_t MetricsFile::end_of_last_line() const {
  std::array<char, 4096> block{};
  off_t end = std::max<off_t>(lseek(fd_, 0, SEEK_END), 0);
  while (end > 0) {
    const off_t begin = std::max<off_t>(end - static_cast<off_t>(block.size()), 0);
    const ssize_t count = pread(fd_, block.data(), static_cast<std::size_t>(end - begin), begin);
    FM_MACHINE_CHECK(count == end - begin, core::ExitCode::kStorageFailed,
                     "the file of the run before must be readable; choose another --output_dir (",
                     path_.string(), ": ", std::strerror(errno), ")");
    const std::size_t newline =
        std::string_view(block.data(), static_cast<std::size_t>(count)).rfind('\n');
    if (newline != std::string_view::npos) return begin + static_cast<off_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

}  // namespace fm::engine

#include "engine/shown/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/agree.h"
#include "core/check.h"
#include "core/files/durable_file.h"
#include "core/files/files.h"
#include "core/files/output_file.h"

namespace fm::engine {
namespace {

std::optional<std::int64_t> step_of_row(std::string_view line) {
  constexpr std::string_view kBegin = "{\"step\": ";
  if (!line.starts_with(kBegin)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = line.data() + line.size();
  const auto [stopped, error] = std::from_chars(line.data() + kBegin.size(), end, step);
  if (error != std::errc() || stopped == end || (*stopped != ',' && *stopped != '}')) {
    return std::nullopt;
  }
  return step;
}

// Bytes of a file.
struct FileRange {
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

// Which lines of a file stay. A long run has millions: none of their text is held.
class KeptLines {
 public:
  KeptLines(std::istream& file, std::int64_t last_step) {
    std::int64_t begin = 0;
    for (std::string line; std::getline(file, line);) {
      const std::optional<std::int64_t> step = step_of_row(line);
      if (line.starts_with("{\"start\":")) start_ = all_.size();
      all_.push_back({begin, step.value_or(kNone)});
      begin += static_cast<std::int64_t>(line.size()) + 1;
    }
    end_ = begin;
    whole_ = !file.bad();
    // The last row of each step counts, and no later step.
    std::vector<std::pair<std::int64_t, std::size_t>> rows;
    for (std::size_t at = 0; at < all_.size(); ++at) {
      if (all_[at].step != kNone) rows.emplace_back(all_[at].step, at);
    }
    std::ranges::sort(rows);
    stays_.resize(all_.size(), true);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool newest = i + 1 == rows.size() || rows[i + 1].first != rows[i].first;
      const bool counts = newest && rows[i].first <= last_step;
      stays_[rows[i].second] = counts;
      cut_ += counts ? 0 : 1;
      if (counts) steps_.push_back(rows[i].first);
    }
  }

  bool whole() const { return whole_; }  // false: a disk did not give all of it
  std::int64_t kept() const { return std::ssize(steps_); }
  std::int64_t cut() const { return cut_; }

  // Of the lines that stay, or of the others; those side by side as one.
  std::vector<FileRange> ranges(bool stay) const {
    std::vector<FileRange> found;
    for (std::size_t at = 0; at < all_.size(); ++at) {
      if (stays_[at] != stay) continue;
      const FileRange line = range_of(at);
      if (found.empty() || found.back().begin + found.back().bytes != line.begin) {
        found.push_back(line);
      } else {
        found.back().bytes += line.bytes;
      }
    }
    return found;
  }

  // The newest line of a start, and the last rows behind it.
  std::vector<FileRange> last_start(std::size_t most_rows) const {
    if (!start_) return {};
    std::vector<FileRange> found;
    for (std::size_t at = all_.size(); at > *start_ + 1 && found.size() < most_rows; --at) {
      if (all_[at - 1].step != kNone && stays_[at - 1]) found.push_back(range_of(at - 1));
    }
    found.push_back(range_of(*start_));
    std::ranges::reverse(found);
    return found;
  }

  // "3, 7 to 9"
  std::string missing(std::int64_t last_step) const {
    std::string out;
    std::int64_t next = 1;  // the first step that has not been seen
    const auto add = [&](std::int64_t present) {
      const std::int64_t last = present - 1;
      if (last >= next) {
        out += core::concat(out.empty() ? "" : ", ", next);
        if (last > next) out += core::concat(" to ", last);
      }
      next = std::max(next, present + 1);
    };
    for (const std::int64_t step : steps_) add(step);
    add(last_step + 1);
    return out;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  struct Line {
    std::int64_t begin = 0;
    std::int64_t step = kNone;
  };

  FileRange range_of(std::size_t at) const {
    const std::int64_t end = at + 1 < all_.size() ? all_[at + 1].begin : end_;
    return {all_[at].begin, end - all_[at].begin};
  }

  std::vector<Line> all_;
  std::int64_t end_ = 0;
  bool whole_ = true;
  std::optional<std::size_t> start_;  // the newest line of one
  std::vector<bool> stays_;
  std::vector<std::int64_t> steps_;  // that stay, rising
  std::int64_t cut_ = 0;
};

// Throws MachineError (26) naming `path`, where they are written.
void copy_ranges(std::istream& from, const std::vector<FileRange>& ranges, std::ostream& to,
                 const std::filesystem::path& path) {
  std::string piece;
  for (FileRange left : ranges) {
    from.clear();
    from.seekg(left.begin);
    while (left.bytes > 0 && from.good()) {
      piece.resize(static_cast<std::size_t>(std::min<std::int64_t>(left.bytes, 1 << 20)));
      from.read(piece.data(), std::ssize(piece));
      to << std::string_view(piece).substr(0, static_cast<std::size_t>(from.gcount()));
      left.bytes -= from.gcount();
    }
    FM_MACHINE_CHECK(left.bytes == 0, core::ExitCode::kStorageFailed, path.string(),
                     ": the lines of before could not be read");
  }
  to << std::flush;
  FM_MACHINE_CHECK(to.good(), core::ExitCode::kStorageFailed, path.string(), ": ",
                   std::strerror(errno));
}

}  // namespace

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

bool MetricsFile::reopen() {
  const int again = open_named();
  if (again < 0) return false;
  close(std::exchange(fd_, again));
  end_ = std::max<off_t>(lseek(fd_, 0, SEEK_END), 0);
  return true;
}

KeptRows MetricsFile::keep_until(std::int64_t last_step) {
  if (!std::filesystem::is_regular_file(path_)) return {};
  constexpr std::size_t kRowsOfTime = 51;  // measured_time takes 50, but the first
  std::ifstream file(path_, std::ios::binary);
  const KeptLines lines(file, last_step);
  if (!lines.whole()) return {.problem = path_.string() + " could not be read to its end"};
  KeptRows done{.rows = lines.kept(), .missing = lines.missing(last_step)};
  comm::attempt([&] {  // without it nothing is said of the time of steps
    std::ostringstream start;
    copy_ranges(file, lines.last_start(kRowsOfTime), start, path_);
    done.last_start = start.str();
  });
  if (lines.cut() == 0) return done;
  done.problem = comm::attempt([&] {
    const std::filesystem::path replaced =
        path_.parent_path() / (path_.stem().string() + ".replaced.jsonl");
    std::ofstream others(replaced, std::ios::binary | std::ios::app);
    copy_ranges(file, lines.ranges(false), others, replaced);
    core::WritableFile::open(core::behind_links(replaced)).sync_and_close();
    const std::vector<FileRange> kept = lines.ranges(true);
    const bool beginning = kept.empty() || (kept.size() == 1 && kept[0].begin == 0);
    if (!beginning) {
      core::replace_file(core::behind_links(path_),
                         [&](std::ostream& fresh) { copy_ranges(file, kept, fresh, path_); });
    } else if (ftruncate(fd_, static_cast<off_t>(kept.empty() ? 0 : kept[0].bytes)) != 0) {
      FM_MACHINE_CHECK(false, core::ExitCode::kStorageFailed, std::strerror(errno));
    }
    FM_MACHINE_CHECK(reopen(), core::ExitCode::kStorageFailed, std::strerror(errno));
  });
  if (done.problem.empty()) done.cut = lines.cut();
  return done;
}

std::function<std::string()> MetricsFile::sync_later() const {
  const auto close_one = [](const int* fd) {
    close(*fd);
    delete fd;
  };
  const std::shared_ptr<const int> fd(new int(fcntl(fd_, F_DUPFD_CLOEXEC, 0)), close_one);
  return [fd]() -> std::string {
    const bool done = fdatasync(*fd) == 0 || errno == EINVAL;  // a device has nothing to sync
    return done ? "" : std::strerror(errno);
  };
}

std::string MetricsFile::append(const std::string& line) {
  if (!core::leads_to(path_, fd_) && !reopen()) return std::strerror(errno);
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

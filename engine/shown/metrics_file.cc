#include "engine/shown/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
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

// The rows that count of a file's text.
class Rows {
 public:
  explicit Rows(std::string_view text, std::int64_t last_step) : text_(text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      lines_.push_back(text.substr(begin, end - begin));
      if (const auto step = step_of_row(lines_.back())) last_of_[*step] = lines_.size() - 1;
      begin = end;
    }
    last_of_.erase(last_of_.upper_bound(last_step), last_of_.end());
    for (std::size_t at = 0; at < lines_.size(); ++at) {
      const std::optional<std::int64_t> step = step_of_row(lines_[at]);
      const auto found = step ? last_of_.find(*step) : last_of_.end();
      const bool stays = !step || (found != last_of_.end() && found->second == at);
      (stays ? kept_ : cut_) += lines_[at];
      cut_count_ += stays ? 0 : 1;
    }
  }

  const std::string& kept() const { return kept_; }
  const std::string& cut() const { return cut_; }
  std::int64_t kept_count() const { return static_cast<std::int64_t>(last_of_.size()); }
  std::int64_t cut_count() const { return cut_count_; }
  bool kept_is_the_beginning() const { return text_.starts_with(kept_); }

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
    for (const auto& [step, line] : last_of_) add(step);
    add(last_step + 1);
    return out;
  }

 private:
  std::string_view text_;
  std::vector<std::string_view> lines_;
  std::map<std::int64_t, std::size_t> last_of_;  // step -> its line
  std::string kept_;
  std::string cut_;
  std::int64_t cut_count_ = 0;
};

void append_to(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text << std::flush;
  FM_MACHINE_CHECK(file.good(), core::ExitCode::kStorageFailed, path.string(), ": ",
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
  std::ifstream file(path_, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const Rows rows(text, last_step);
  KeptRows done{.rows = rows.kept_count(), .missing = rows.missing(last_step)};
  constexpr std::string_view kStart = "{\"start\":";
  const std::size_t start = rows.kept().rfind(std::string("\n").append(kStart));
  if (start != std::string::npos) {
    done.last_start = rows.kept().substr(start + 1);
  } else if (rows.kept().starts_with(kStart)) {
    done.last_start = rows.kept();
  }
  if (rows.cut_count() == 0) return done;
  done.problem = comm::attempt([&] {
    append_to(path_.parent_path() / (path_.stem().string() + ".replaced.jsonl"), rows.cut());
    if (!rows.kept_is_the_beginning()) {
      core::replace_file(core::behind_links(path_), rows.kept());
    } else if (ftruncate(fd_, static_cast<off_t>(rows.kept().size())) != 0) {
      FM_MACHINE_CHECK(false, core::ExitCode::kStorageFailed, std::strerror(errno));
    }
    FM_MACHINE_CHECK(reopen(), core::ExitCode::kStorageFailed, std::strerror(errno));
  });
  if (done.problem.empty()) done.cut = rows.cut_count();
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

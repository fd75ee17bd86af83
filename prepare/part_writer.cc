#include "prepare/part_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "core/check.h"
#include "core/files.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = std::size_t{1} << 20;
constexpr mode_t kFileMode = 0666;  // the umask decides

}  // namespace

fs::path with_ending(const fs::path& prefix, const char* ending) {
  fs::path out = prefix;
  out += ending;
  return out;
}

// A new file that grows at its end.
class PartWriter::File {
 public:
  explicit File(fs::path path)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kFileMode)) {
    if (fd_ < 0) fail("create");
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(fd_); }

  template <class T>
  void put(std::span<const T> values) {
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    buffer_.insert(buffer_.end(), bytes, bytes + values.size_bytes());
    if (buffer_.size() >= kBuffer) flush();
  }
  template <class T>
  void put_one(T value) {
    put(std::span<const T>(&value, 1));
  }
  void flush() {
    for (std::size_t done = 0; done < buffer_.size();) {
      const ssize_t wrote = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) fail("write");
      done += static_cast<std::size_t>(wrote);
    }
    buffer_.clear();
  }
  void sync() {
    flush();
    if (::fsync(fd_) != 0) fail("write");
  }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* action) const {
    const int error = errno;
    throw core::MachineError(
        core::ExitCode::kStorageFailed,
        core::concat("storage must take the tokens of the data; check space, quota and "
                     "permissions, or name another folder with --cache_dir (",
                     action, " ", path_.string(), ": ", std::strerror(error), ")"));
  }

  fs::path path_;
  int fd_;
  std::vector<char> buffer_;
};

PartWriter::PartWriter(const fs::path& prefix, std::int64_t vocab)
    : prefix_(prefix),
      narrow_(vocab <= 1 << 16),
      ids_(std::make_unique<File>(with_ending(prefix, ".bin"))),
      lengths_(std::make_unique<File>(with_ending(prefix, ".lengths"))) {}

PartWriter::~PartWriter() = default;

void PartWriter::add(const TokenizedLines& lines) {
  add_counted(lines);
  if (narrow_) {
    std::vector<std::uint16_t> narrow(lines.ids.size());
    std::ranges::transform(lines.ids, narrow.begin(),
                           [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    ids_->put(std::span<const std::uint16_t>(narrow));
  } else {
    ids_->put(std::span<const std::int32_t>(lines.ids));
  }
  lengths_->put(std::span<const std::int32_t>(lines.lengths));
  counts_.documents += std::ssize(lines.lengths);
  counts_.ids += std::ssize(lines.ids);
}

void PartWriter::add_counted(const TokenizedLines& lines) {
  if (lines.counted.empty() && counted_ == nullptr) {
    counts_.counted += std::ssize(lines.ids);
    return;
  }
  if (counted_ == nullptr) {
    counted_ = std::make_unique<File>(with_ending(prefix_, ".counted"));
    const std::vector<std::uint8_t> ones(kBuffer, 1);
    for (std::int64_t left = counts_.ids; left > 0; left -= std::ssize(ones)) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(left, std::ssize(ones)));
      counted_->put(std::span<const std::uint8_t>(ones).first(count));
    }
  }
  std::vector<std::uint8_t> counted = lines.counted;
  counted.resize(lines.ids.size(), 1);
  counts_.counted += std::count(counted.begin(), counted.end(), 1);
  counted_->put(std::span<const std::uint8_t>(counted));
}

void PartWriter::write_index() {
  File index(with_ending(prefix_, ".idx"));
  index.put(std::span<const char>("MMIDIDX\0", 9));
  index.put_one<std::uint64_t>(1);
  index.put_one<std::uint8_t>(narrow_ ? 8 : 4);
  index.put_one<std::uint64_t>(static_cast<std::uint64_t>(counts_.documents));
  index.put_one<std::uint64_t>(static_cast<std::uint64_t>(counts_.documents) + 1);
  const auto for_lengths = [&](const auto& body) {
    core::FileStream stream(lengths_->path().string());
    for (std::string_view piece = stream.next(); !piece.empty(); piece = stream.next()) {
      for (; !piece.empty(); piece.remove_prefix(sizeof(std::int32_t))) {
        std::int32_t length = 0;
        std::memcpy(&length, piece.data(), sizeof(length));
        body(length);
      }
    }
  };
  for_lengths([&](std::int32_t length) { index.put_one(length); });
  std::int64_t byte = 0;
  for_lengths([&](std::int32_t length) {
    index.put_one(byte);
    byte += length * std::int64_t{narrow_ ? 2 : 4};
  });
  for (std::int64_t document = 0; document <= counts_.documents; ++document) {
    index.put_one(document);
  }
  index.sync();
}

PartCounts PartWriter::finish() {
  lengths_->flush();
  ids_->sync();
  if (counted_ != nullptr) counted_->sync();
  if (counts_.documents > 0) write_index();
  fs::remove(lengths_->path());
  if (counts_.documents == 0) fs::remove(ids_->path());
  return counts_;
}

}  // namespace fm::prepare

#include "text/prepare/line_batches.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/files/files.h"
#include "text/data/array_lines.h"
#include "text/data/formats/table_rows.h"
#include "text/data/text_pieces.h"

namespace fm::prepare {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kMagic = 4;  // bytes that tell gzip and zstd

// An open file, read at any place.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), fd_(core::open_regular(path, opened_)) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { ::close(fd_); }

  std::int64_t size() const { return opened_.st_size; }
  // At most `buffer` bytes from `at` on; fewer at the end.
  std::string_view read(std::int64_t at, std::size_t count, std::vector<char>& buffer) const {
    buffer.resize(std::max(buffer.size(), count));
    ssize_t got = -1;
    do {
      got = ::pread(fd_, buffer.data(), count, at);
    } while (got < 0 && errno == EINTR);
    FM_DATA_CHECK(got >= 0, path_, ": the file must be readable; look at the disk");
    return {buffer.data(), static_cast<std::size_t>(got)};
  }
  void check_unwritten() const {
    struct stat now {};
    FM_DATA_CHECK(::fstat(fd_, &now) == 0, path_, ": the file must be readable");
    core::check_unwritten(path_, opened_, now);
  }

 private:
  std::string path_;
  struct stat opened_ {};
  int fd_;
};

// The first place at or behind `at` at which a line begins; the size where none does.
std::int64_t line_from(const Reader& file, std::int64_t at) {
  if (at <= 0) return 0;
  std::vector<char> buffer;
  for (std::int64_t place = at - 1; place < file.size();) {
    const std::string_view piece = file.read(place, kPiece, buffer);
    if (piece.empty()) break;
    const std::size_t end = piece.find('\n');
    if (end != std::string_view::npos) return place + static_cast<std::int64_t>(end) + 1;
    place += static_cast<std::int64_t>(piece.size());
  }
  return file.size();
}

std::int64_t share(std::int64_t size, int part, int parts) {
  return static_cast<std::int64_t>(static_cast<double>(size) * part / parts);
}

// A search takes a tenth of the instructions that std::count does.
std::int64_t line_ends(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) ++count;
  return count;
}

// How many lines begin before a byte.
std::int64_t count_lines(const std::string& path, std::int64_t byte) {
  const Reader file(path);
  std::vector<char> buffer;
  std::int64_t lines = 0;
  for (std::int64_t at = 0; at < byte;) {
    const auto most = static_cast<std::size_t>(std::min<std::int64_t>(byte - at, kPiece));
    const std::string_view piece = file.read(at, most, buffer);
    if (piece.empty()) break;
    lines += std::count(piece.begin(), piece.end(), '\n');
    at += static_cast<std::int64_t>(piece.size());
  }
  return lines;
}

// Whether rows begin where line ends are.
bool has_places(const FilePart& part) {
  const bool lines = part.rows == data::RowLayout::kTextLines;
  if ((!lines && part.rows != data::RowLayout::kJsonLines) || is_packed(part.path)) return false;
  std::vector<char> buffer;
  return lines || !data::begins_array(Reader(part.path).read(0, kPiece, buffer));
}

}  // namespace

bool is_packed(const std::string& path) {
  const Reader file(path);
  std::vector<char> buffer;
  return data::make_decoder(file.read(0, kMagic, buffer), path) != nullptr;
}

LineRange lines_of_part(const FilePart& part) {
  const Reader file(part.path);
  const bool has_some = part.part == 0 || data::is_table(part.rows);
  if (!has_places(part)) return {0, has_some ? file.size() : 0};
  const bool is_last = part.part + 1 == part.parts;
  const std::int64_t last =
      is_last ? file.size() : line_from(file, share(file.size(), part.part + 1, part.parts));
  return {line_from(file, share(file.size(), part.part, part.parts)), last};
}

// The rows of the range, as lines of JSONL.
class LineBatches::Pieces {
 public:
  Pieces(const FilePart& part, const LineRange& range)
      : file_(part.path), at_(range.first), last_(range.last) {
    if (last_ == 0) return;
    if (data::is_table(part.rows)) {
      data::Table table = data::open_table(part.path, part.rows, part.part, part.parts);
      rows_ = std::move(table.rows);
      rows_before_ = table.rows_before;
    } else if (!has_places(part)) {
      whole_.emplace(part.path, part.rows);
    } else if (part.rows != data::RowLayout::kJsonLines) {
      data::RowText text{.next_piece = [this] { return next_of_range(); }, .path = part.path};
      if (at_ > 0) {
        text.lines_before = [path = part.path, at = at_] { return count_lines(path, at); };
      }
      rows_ = data::make_row_lines(part.rows, std::move(text));
    }
  }

  std::int64_t rows_before() const { return rows_before_; }
  std::string_view next() {
    if (whole_) return whole_->next();
    if (!rows_) return next_of_range();
    const std::string_view piece = rows_->next();
    if (piece.empty()) file_.check_unwritten();
    return piece;
  }

 private:
  std::string_view next_of_range() {
    const auto most = static_cast<std::size_t>(std::min<std::int64_t>(last_ - at_, kPiece));
    const std::string_view piece = most == 0 ? "" : file_.read(at_, most, buffer_);
    at_ += static_cast<std::int64_t>(piece.size());
    if (piece.empty()) file_.check_unwritten();
    return piece;
  }

  Reader file_;
  std::int64_t at_;
  std::int64_t last_;
  std::vector<char> buffer_;
  std::unique_ptr<data::RowLines> rows_;  // null: the lines are those of the file
  std::optional<data::FileRows> whole_;   // of a file without places
  std::int64_t rows_before_ = 0;          // of a table, in other parts
};

LineBatches::LineBatches(const FilePart& part)
    : part_(part), range_(lines_of_part(part)), pieces_(std::make_unique<Pieces>(part, range_)) {}

LineBatches::~LineBatches() = default;

std::int64_t LineBatches::lines_before() const {
  return count_lines(part_.path, range_.first) + pieces_->rows_before();
}

std::string LineBatches::place() const {
  return core::concat(part_.path, ":", lines_before() + lines_ + 1);
}

bool LineBatches::next(std::size_t bytes, std::string& batch) {
  batch = std::move(carried_);  // no line end in it
  carried_.clear();
  std::size_t whole = 0;  // bytes of whole lines
  while (!ended_) {
    const std::string_view piece = pieces_->next();
    ended_ = piece.empty();
    const std::size_t end = piece.rfind('\n');
    if (end != std::string_view::npos) whole = batch.size() + end + 1;
    if (whole == 0) data::check_line(batch.size() + piece.size(), [&] { return place(); });
    batch += piece;
    if (batch.size() < bytes || whole == 0 || ended_) continue;
    carried_ = batch.substr(whole);
    batch.resize(whole);
    lines_ += line_ends(batch);
    return true;
  }
  return !batch.empty();
}

}  // namespace fm::prepare

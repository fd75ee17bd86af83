// A whole file, read once from its start to its end, piece by piece: no more of it in memory, and
// no signal when it is cut meanwhile, as of a mapping.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fm::core {

// Opens `path` for reading; `opened` is its state. Throws UserError (11) naming it when it is
// missing, unreadable or no regular file.
int open_regular(const std::string& path, struct stat& opened);
// Throws UserError (11) naming `path` when the file has been written in between.
void check_unwritten(const std::string& path, const struct stat& opened, const struct stat& now);

// Invariant: what next() has returned is the file as it was opened.
// Thread:    one.
// Lifetime:  a piece is valid until the next one, and dies with the object.
class FileStream {
 public:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  explicit FileStream(const std::string& path);  // throws as open_regular does
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;
  ~FileStream();

  std::size_t size() const { return static_cast<std::size_t>(opened_.st_size); }
  // kPiece bytes, fewer at the end, then none. Throws UserError (11) when the file has been written
  // since it was opened.
  std::string_view next();

 private:
  std::string path_;
  struct stat opened_ {};
  int fd_;
  std::size_t read_ = 0;  // bytes of the file
  std::vector<char> piece_;
};

}  // namespace fm::core

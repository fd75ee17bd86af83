// Files that are read whole: at once, or piece by piece; and whether a name still leads to one;
// pointers of Git LFS.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fm::core {

// What git leaves of a large file that git-lfs has not fetched: a few lines that name its content
// (the specification of git-lfs, version 1).
inline constexpr const char* kIsLfsPointer =
    "it is a pointer of Git LFS; fetch the file with git lfs pull, or get it again";

inline bool is_lfs_pointer(std::string_view text) {
  return text.starts_with("version https://git-lfs.github.com/spec/");
}

// A small file, read whole: what a user names may be a device or a pipe, which may have no end.

// Above what any such file holds.
inline constexpr Bytes kMostConfig{16'000'000};    // a configuration written by hand
inline constexpr Bytes kMostListing{256'000'000};  // names of tensors or words: index, manifest

enum class FileKind : std::uint8_t {
  kRegular,  // nothing else: a file that belongs to a folder
  kAny,      // also /dev/stdin and the pipe that a shell makes of <(...)
};

struct SmallFile {
  std::string text = {};
  std::string problem = {};  // "" when the text is whole, else why not: "No such file or directory"
  int error = 0;             // the errno that the problem names, if any
};

// Reads at most `most` bytes, and waits `patience_ms` at most for what comes through a pipe.
SmallFile read_small_file(const std::filesystem::path& path, Bytes most,
                          FileKind kind = FileKind::kRegular, int patience_ms = 60'000);

// A whole file, read once from its start to its end, piece by piece: no more of it in memory, and
// no signal when it is cut meanwhile, as of a mapping.

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

// Whether an open file is still the one that its name leads to.

// False: the file was deleted, renamed or replaced since it was opened, or a folder above it was.
bool leads_to(const std::filesystem::path& path, int fd);

}  // namespace fm::core

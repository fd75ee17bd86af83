#include "text/prepare/content_note.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/files/durable_file.h"
#include "core/files/files.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;

constexpr core::Bytes kMostNote{1 << 16};
// A file that was written so short ago may be written again within one tick of its clock.
constexpr std::time_t kSettled = 2;

struct stat state_of(const std::string& path) {
  struct stat state {};
  const int fd = core::open_regular(path, state);
  ::close(fd);
  return state;
}

// What would be another if the file were. One line each.
std::string words_of(const std::string& path, const struct stat& state) {
  return core::concat("fmengine content 1\n", fs::absolute(path).lexically_normal().string(),
                      "\nsize ", state.st_size, " inode ", state.st_ino, " modified ",
                      state.st_mtim.tv_sec, ' ', state.st_mtim.tv_nsec, " changed ",
                      state.st_ctim.tv_sec, ' ', state.st_ctim.tv_nsec, '\n');
}

std::string read_content(const std::string& path) {
  core::FileStream file(path);
  std::uint32_t crc = 0;
  for (std::string_view piece = file.next(); !piece.empty(); piece = file.next()) {
    crc = core::crc32c(piece, crc);
  }
  return hex_of((std::uint64_t{crc} << 32) ^ file.size());
}

}  // namespace

std::string hex_of(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(number >> shift) & 15U];
  return out;
}

std::string content_of(const std::string& path, const fs::path& cache_dir, std::time_t now) {
  const std::string words = words_of(path, state_of(path));
  const std::string name = hex_of(core::crc32c(fs::absolute(path).lexically_normal().string()));
  const fs::path note = cache_dir / core::concat("content-", name.substr(8), ".txt");
  const std::string known = core::read_small_file(note, kMostNote).text;
  if (known.starts_with(words) && known.size() == words.size() + 17) {
    return known.substr(words.size(), 16);
  }
  std::string content = read_content(path);
  const struct stat after = state_of(path);
  const bool settled = std::max(after.st_mtim.tv_sec, after.st_ctim.tv_sec) + kSettled < now;
  if (settled && words_of(path, after) == words) {
    try {
      core::make_folders(cache_dir);
      core::replace_file(note, words + content + "\n");
    } catch (const core::MachineError&) {  // the next start reads the file again
    }
  }
  return content;
}

}  // namespace fm::prepare

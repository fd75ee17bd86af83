// What disks and people do to files.
#pragma once

#include <sys/fsuid.h>

#include <filesystem>
#include <fstream>

namespace fm::testing {

inline void flip_byte(const std::filesystem::path& path, std::int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char old = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(old ^ 0x10));
}

// The file system refuses this thread, and those it starts, what it refuses strangers: permissions
// bind root too.
class AsAStranger {
 public:
  AsAStranger() : before_(setfsuid(kNobody)) {}
  AsAStranger(const AsAStranger&) = delete;
  AsAStranger& operator=(const AsAStranger&) = delete;
  ~AsAStranger() { setfsuid(static_cast<unsigned>(before_)); }

 private:
  static constexpr unsigned kNobody = 65534;
  int before_;
};

}  // namespace fm::testing

#include "core/named_file.h"

#include <sys/stat.h>

namespace fm::core {

bool leads_to(const std::filesystem::path& path, int fd) {
  struct stat named {};
  struct stat open {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

}  // namespace fm::core

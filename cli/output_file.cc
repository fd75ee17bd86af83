#include "cli/output_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "core/check.h"

namespace fm::cli {

void write_output(const OutputName& name, const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  FM_USER_CHECK(file.good(), "the ", name.what,
                " must have a place that can be written; choose one with ", name.flag, " FILE (",
                path, ": ", std::strerror(errno), ")");
  file << text << std::flush;
  FM_MACHINE_CHECK(file.good(), core::ExitCode::kStorageFailed, path, ": ", std::strerror(errno));
}

}  // namespace fm::cli

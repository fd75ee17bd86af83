#include "engine/trace_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/check.h"

namespace fm::engine {

TraceFile::TraceFile(std::string path) : path_(std::move(path)), unfinished_(path_ + ".tmp") {
  std::error_code ignored;
  FM_USER_CHECK(!std::filesystem::is_directory(path_, ignored),
                "--trace must name a file, not a folder; write a name such as trace.json (", path_,
                ")");
  file_ = std::fopen(unfinished_.c_str(), "we");
  FM_USER_CHECK(file_ != nullptr,
                "--trace must name a file in a folder that is there and can be written; make the "
                "folder or choose another name (",
                path_, ": ", std::strerror(errno), ")");
}

TraceFile::~TraceFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(unfinished_.c_str());
}

void TraceFile::add(std::string_view text) {
  if (error_ != 0) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
}

std::string TraceFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && std::rename(unfinished_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return "";
  std::remove(unfinished_.c_str());
  return core::concat(path_, ": ", std::strerror(error_));
}

}  // namespace fm::engine

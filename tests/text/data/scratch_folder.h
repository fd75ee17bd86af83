// A folder of a test, deleted with everything in it at the end.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace fm::testing {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fm-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << content;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string file_content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The message that `body` throws as `Error` with this exit code; anything else is a test failure
// text that no expectation contains.
template <class Error, class Body>
std::string message_of(int exit_code, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    if (static_cast<int>(error.code()) == exit_code) return error.what();
    return "OTHER EXIT CODE " + std::to_string(static_cast<int>(error.code())) + ": " +
           error.what();
  }
  return "NOTHING THROWN";
}

}  // namespace fm::testing

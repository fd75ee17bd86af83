#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>

#include "tests/tidy/laws.h"

namespace fm::tidy {

namespace {

// Split, so that this file obeys its own law.
constexpr std::array<std::string_view, 7> kPlaces = {
    "/wo"
    "rk/",
    "/ro"
    "ot/",
    "/ho"
    "me/",
    "/tmp/se"
    "tup",
    "pypi"
    ".org",
    "python"
    "hosted",
    "debian"
    ".org"};

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '/';
}

// `file` as a whole path inside `cmake_lists`, so that a.cc is not found in data.cc or wing/a.cc.
bool names(const std::string& cmake_lists, const std::string& file) {
  for (std::size_t at = cmake_lists.find(file); at != std::string::npos;
       at = cmake_lists.find(file, at + 1)) {
    const std::size_t end = at + file.size();
    const bool begins = at == 0 || !is_name_char(cmake_lists[at - 1]);
    if (begins && (end == cmake_lists.size() || !is_name_char(cmake_lists[end]))) return true;
  }
  return false;
}

// What follows FOLDERS in a call of CMake: all sources of these folders are built.
std::set<std::string> whole_folders(const std::string& cmake_lists) {
  std::set<std::string> folders;
  std::istringstream words(cmake_lists);
  bool listed = false;
  for (std::string word; words >> word;) {
    const bool last = word.ends_with(')');
    if (last) word.pop_back();
    if (word == "FOLDERS") {
      listed = true;
    } else if (listed && std::isupper(static_cast<unsigned char>(word[0])) == 0) {
      folders.insert(word);
    } else {
      listed = false;
    }
    listed = listed && !last;
  }
  return folders;
}

}  // namespace

Findings all_laws(const Source& source, const Limits& limits) {
  constexpr std::array kLaws = {
      include_matrix,   torch_free,     libraries_stay_in_sources, lengths,
      telling_names,    one_namespace,  no_default_label,          no_mutable_globals,
      qualified_stage,  only_main_ends, no_directives_in_bodies,   no_family,
      kernels_take_work};
  Findings found;
  for (const auto law : kLaws) {
    const Findings more = law(source, limits);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

Findings no_places(const std::string& text) {
  Findings found;
  for (const std::string_view place : kPlaces) {
    for (std::size_t at = text.find(place); at != std::string::npos;
         at = text.find(place, at + 1)) {
      const auto line =
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      found.push_back({static_cast<int>(line) + 1,
                       "no paths of one machine, no hosts of registries: " + std::string(place)});
    }
  }
  return found;
}

std::vector<std::string> not_built(const std::vector<std::string>& files,
                                   const std::string& cmake_lists) {
  const std::set<std::string> folders = whole_folders(cmake_lists);
  std::vector<std::string> absent;
  for (const std::string& file : files) {
    const std::size_t end = file.rfind('/');
    if (folders.contains(end == file.npos ? "." : file.substr(0, end))) continue;
    const bool source = file.ends_with(".cc") || file.ends_with(".cu");
    if (source && !names(cmake_lists, file)) absent.push_back(file);
  }
  return absent;
}

std::vector<std::string> without_header(const std::set<std::string>& files,
                                        const std::map<std::string, std::string>& behind) {
  const auto has_own = [&](const std::string& source) {
    return files.contains(source.substr(0, source.rfind('.')) + ".h");
  };
  std::vector<std::string> broken;
  for (const std::string& file : files) {
    if (!file.ends_with(".cc") || file.ends_with("main.cc") || has_own(file)) continue;
    if (!behind.contains(file)) broken.push_back(file + " has no header");
  }
  for (const auto& [source, header] : behind) {
    if (!files.contains(source)) broken.push_back(source + " is gone");
    if (has_own(source)) broken.push_back(source + " has a header again");
    if (!files.contains(header)) broken.push_back(header + " is gone");
  }
  return broken;
}

}  // namespace fm::tidy

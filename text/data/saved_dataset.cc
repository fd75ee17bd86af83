#include "text/data/saved_dataset.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kState = "state.json";
constexpr const char* kSplits = "dataset_dict.json";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

json read(const fs::path& path) {
  const core::SmallFile file = core::read_small_file(path, core::kMostListing);
  FM_DATA_CHECK(file.problem.empty() && core::is_shallow(file.text), path.string(),
                ": it must be a JSON file of a few levels; save the data set again (", file.problem,
                ")");
  json value = json::parse(file.text, nullptr, false);
  FM_DATA_CHECK(value.is_object(), path.string(),
                ": it must be one JSON object; save the data set again");
  return value;
}

std::string name_in(const json& value, const fs::path& path) {
  std::string name = value.is_string() ? value.get<std::string>() : "";
  FM_DATA_CHECK(!name.empty() && name.find('/') == name.npos && name != "..", path.string(),
                ": a name must be that of something beside it; save the data set again (",
                core::shortened(value.dump(-1, ' ', false, json::error_handler_t::replace)), ")");
  return name;
}

}  // namespace

bool is_saved_dataset(const std::string& folder) {
  const fs::path path(folder);
  return is_file(path / kSplits) || (is_file(path / kState) && is_file(path / "dataset_info.json"));
}

std::vector<std::string> files_of_saved_dataset(const std::string& folder) {
  const fs::path path(folder);
  if (is_file(path / kSplits)) {
    std::vector<std::string> splits;
    const json all = read(path / kSplits);
    const auto names = all.find("splits");
    for (const json& name : names == all.end() ? json::array() : *names) {
      splits.push_back((path / name_in(name, path / kSplits)).string());
    }
    FM_USER_CHECK(false, folder,
                  " holds the splits of a data set; name one of them: ", core::join(splits, ", "));
  }
  const json state = read(path / kState);
  const auto indices = state.find("_indices_files");
  FM_DATA_CHECK(indices == state.end() || indices->empty(), (path / kState).string(),
                ": the rows must be those of the files, and here a list of indices chooses them; "
                "save the data set again after flatten_indices()");
  std::vector<std::string> files;
  const auto listed = state.find("_data_files");
  for (const json& file : listed == state.end() ? json::array() : *listed) {
    const auto name = file.is_object() ? file.find("filename") : file.end();
    FM_DATA_CHECK(file.is_object() && name != file.end(), (path / kState).string(),
                  ": each of \"_data_files\" must have a \"filename\"; save the data set again");
    files.push_back((path / name_in(*name, path / kState)).string());
  }
  FM_DATA_CHECK(!files.empty(), (path / kState).string(),
                ": \"_data_files\" must name a file; save the data set again");
  return files;
}

}  // namespace fm::data

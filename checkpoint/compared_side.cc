#include "checkpoint/compared_side.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/lineage.h"
#include "checkpoint/manifest.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

// "weights" of weights-0003.safetensors.
std::string role_of(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  const std::size_t dash = stem.rfind('-');
  const bool numbered =
      dash != std::string::npos && dash + 1 < stem.size() &&
      std::all_of(stem.begin() + static_cast<std::ptrdiff_t>(dash) + 1, stem.end(),
                  [](char letter) { return letter >= '0' && letter <= '9'; });
  return numbered ? stem.substr(0, dash) : stem;
}

// The newest complete one of an output directory, of the run that counts where it has one; nothing
// where there is none.
fs::path newest_below(const fs::path& output_dir) {
  const RunLine line(output_dir);
  fs::path newest;
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) {
    Manifest manifest;
    if (!comm::attempt([&] { manifest = open_manifest(listed.folder); }).empty()) continue;
    if (line.holds(manifest.lineage, manifest.step)) return listed.folder;
    if (newest.empty()) newest = listed.folder;
  }
  return newest;
}

}  // namespace

ComparedSide::ComparedSide(const fs::path& path) : path_(path) {
  if (fs::is_regular_file(path)) {
    open_file("weights", path);
  } else if (has_manifest(path)) {
    open_checkpoint();
  } else if (const fs::path newest = newest_below(path); !newest.empty()) {
    path_ = newest;
    open_checkpoint();
  } else {
    open_folder();
  }
  std::sort(keys_.begin(), keys_.end());
}

void ComparedSide::open_file(const std::string& role, const fs::path& path) {
  files_.push_back(std::make_unique<TensorFile>(path.string()));
  for (const StoredTensor& tensor : files_.back()->header().tensors) {
    const Key key(role, tensor.name);
    if (places_.emplace(key, files_.size() - 1).second) keys_.push_back(key);
  }
}

void ComparedSide::open_checkpoint() {
  checkpoint_ = true;
  const Manifest manifest = open_manifest(path_);
  for (const ManifestFile& file : manifest.files) open_file(role_of(file.file), path_ / file.file);
  add_facts("", read_text(path_ / kStateName));
  facts_["run"] = "\"" + manifest.lineage.run + "\"";
  facts_["run.number"] = std::to_string(manifest.lineage.number);
}

void ComparedSide::open_folder() {
  folder_ = std::make_unique<HfFolder>(path_);
  for (const std::string& name : folder_->names()) {
    keys_.emplace_back("weights", name);
    places_.emplace(keys_.back(), 0);
  }
  const core::SmallFile config = core::read_small_file(path_ / "config.json", core::kMostConfig);
  if (config.problem.empty()) add_facts("config.json: ", config.text);
}

ComparedTensor ComparedSide::tensor(const Key& key) const {
  if (folder_ != nullptr) {
    const HfFolder::RawTensor raw = folder_->raw(key.second);
    return {.dtype = raw.dtype, .shape = raw.shape, .bytes = raw.bytes};
  }
  const TensorFile& file = *files_[places_.at(key)];
  const StoredTensor& stored = *file.find(key.second);
  return {.dtype = stored.dtype, .shape = stored.shape, .bytes = file.bytes_of(stored)};
}

// A text that is no JSON has no facts: its reader says more of it than a comparison could.
void ComparedSide::add_facts(const std::string& prefix, const std::string& json) {
  if (!core::is_shallow(json)) return;
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object() || parsed.empty()) return;
  const auto flat = parsed.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    facts_[prefix + key] = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace fm::checkpoint

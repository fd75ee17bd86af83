// One side of a comparison: where its tensors lie, and what is known beside them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/compare_checkpoints.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors_file.h"

namespace fm::checkpoint {

// Invariant: every tensor of the folder is there once, by role and name.
// Thread:    one.
// Lifetime:  bytes of tensors live as long as the object.
class ComparedSide {
 public:
  using Key = std::pair<std::string, std::string>;  // role, name

  explicit ComparedSide(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  bool is_checkpoint() const { return checkpoint_; }
  const std::vector<Key>& keys() const { return keys_; }  // in order
  bool has(const Key& key) const { return places_.contains(key); }
  // UserError (11) where the file was cut meanwhile.
  ComparedTensor tensor(const Key& key) const;
  // Of state.json and MANIFEST.json, or of config.json: key and value as JSON text.
  const std::map<std::string, std::string>& facts() const { return facts_; }

 private:
  void open_checkpoint();
  void open_file(const std::string& role, const std::filesystem::path& path);
  void open_folder();
  void add_facts(const std::string& prefix, const std::string& json);

  std::filesystem::path path_;
  bool checkpoint_ = false;
  std::vector<std::unique_ptr<TensorFile>> files_;
  std::unique_ptr<HfFolder> folder_;
  std::vector<Key> keys_;
  std::map<Key, std::size_t> places_;  // index into files_
  std::map<std::string, std::string> facts_;
};

}  // namespace fm::checkpoint

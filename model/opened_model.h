// A model as a run knows it, whatever its family. A family is a file that turns config.json into
// such a value (model/families/families.h); nothing else names it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/choices.h"
#include "model/unit.h"

namespace fm::model {

// Alternative names of tensors in files. A parameter table has the names of the whole model.
struct TensorNames {
  // The prefix that transformers omits in files of a model without its head.
  std::string base_prefix = {};
  // A stored tensor and the parameter that it can replace; where both are stored they are equal.
  std::vector<std::pair<std::string, std::string>> copies = {};
  // Suffixes of stored tensors that follow from config.json; these are not read.
  std::vector<std::string> derived_suffixes = {};
  // Prefixes in published folders, which are written too, and in the tables: of a part of a larger
  // model.
  std::vector<std::pair<std::string, std::string>> stored_prefixes = {};
  // Prefixes, by the names of the tables, of tensors of the larger model that have no place here;
  // exports take them from the folder of the start.
  std::vector<std::string> carried = {};
};

struct ModelFacts {
  std::string family;       // for display: "Llama"
  std::string sizes;        // for display: "hidden 64, layers 2, ..."
  std::string identity;     // JSON object of the values that define the function (identity_of)
  std::string config_json;  // the text of config.json for an export
  // Rows of the embedding and the head that config.json names, where there are more now (0: there
  // are not), and the tensors that have them.
  std::int64_t stored_vocab = 0;
  std::vector<std::string> vocab_tensors = {};
  std::int64_t max_positions = 0;  // the longest row in tokens
  // Longer rows have other RoPE frequencies (longrope), which invalidates the cache of a shorter
  // one; 0: there is no such length.
  std::int64_t rope_switch = 0;
  TensorNames names = {};
  // Keys of config.json, with their values, that are not read (model/families/known_keys.h).
  std::vector<std::string> unknown_keys = {};
  // Why the embedding's and the head's matrix cannot be in tiles (model/tile.h); "": they can.
  std::string whole_because = {};
  std::vector<std::string> lora_targets = {};  // none without adapters
  bool transposed = false;                     // matrices are [in, out] in files
};

struct OpenedModel {
  Model model;
  ModelFacts facts;
  // Makes the same model with other choices.
  std::function<Model(const ModelChoices&)> make;
  // Random initial values of elements [first, first + out.size()) of a parameter, a function of
  // (seed, parameter name, element) alone.
  std::function<void(const core::ParamEntry&, std::uint64_t seed, core::Elements first,
                     std::span<float> out)>
      init;
};

// Opens config.json by its model_type. Throws UserError: 10 with the key and what is supported, 11
// when the file is missing or not a JSON object.
OpenedModel open_model(const std::filesystem::path& config_json, const ModelChoices& choices);

}  // namespace fm::model

// A model as a run knows it, whatever its family. A family is a file that turns config.json into
// such a value, and a row of the table in family.cc; nothing else names it.
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

// How tensors in files may be named. A parameter table has the names of the whole model.
struct TensorNames {
  // What transformers leaves out where the part without the head was saved.
  std::string base_prefix = {};
  // A stored tensor and the parameter it may stand in for; where both are stored they are alike.
  std::vector<std::pair<std::string, std::string>> copies = {};
  // Endings of stored tensors that follow from config.json, and are not read.
  std::vector<std::string> derived_suffixes = {};
};

struct ModelFacts {
  std::string family;       // for people: "Llama"
  std::string sizes;        // for people: "hidden 64, layers 2, ..."
  std::string identity;     // JSON object: what decides the function, by the names of config.json
  std::string config_json;  // the text of config.json for an export
  std::int64_t max_positions = 0;  // the longest row in tokens
  // Rows of more tokens turn by other frequencies (longrope), so that what a cache holds of a
  // shorter one is void; 0: there is no such length.
  std::int64_t rope_switch = 0;
  TensorNames names = {};
  // Keys of config.json, with their values, that nobody reads (model/families/known_keys.h).
  std::vector<std::string> unknown_keys = {};
  std::vector<std::string> lora_targets = {};  // none without adapters
  bool transposed = false;                     // matrices are [in, out] in files
};

struct OpenedModel {
  Model model;
  ModelFacts facts;
  // The same model by other choices.
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

// Models of text and images: what of them is a decoder of text. The rest, a tower of images and
// what joins the two, has no place in a run: it is carried from folder to folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/families/config_reader.h"
#include "model/families/decoder_config.h"

namespace fm::model {

struct WholeModel {
  const char* model_type;    // of config.json
  const char* architecture;  // the same
  const char* text_type;     // of its text_config, where that does not say
  // Prefixes of tensors as published folders have them, and as transformers 5 and peft name the
  // modules. The latter are the names of a run.
  std::vector<std::pair<std::string, std::string>> stored_prefixes;
};

// Null where this type is a model of text alone.
const WholeModel* whole_model(const std::string& model_type);
std::vector<std::string> whole_types();
// Its text_config; earlier versions wrote those keys beside the others, then the file itself.
ConfigReader text_config(const ConfigReader& file);
// The family that a text_config's model_type names: "qwen3" of "qwen3_vl_text".
std::string text_family(const WholeModel& whole, const ConfigReader& text);
// Makes the decoder of `text` a part of `file`: names, and what the whole model says of both.
void place_in_whole(const WholeModel& whole, const ConfigReader& file, const ConfigReader& text,
                    DecoderConfig& config);

}  // namespace fm::model

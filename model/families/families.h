// The table of families: config.json becomes the values of a decoder. A family is a header, which
// families.cc alone includes, and a row there. Keys and defaults: transformers,
// src/transformers/models/*/configuration_*.py.
#pragma once

#include "model/families/decoder_config.h"

namespace fm::model {

// By the model_type of the file. Throws UserError (10) naming the key and what is supported.
DecoderConfig read_config(const ConfigReader& file);

}  // namespace fm::model

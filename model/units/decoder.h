// A decoder as a sequence of units: embedding, blocks, head.
#pragma once

#include "model/families/decoder_config.h"
#include "model/opened_model.h"

namespace fm::model {

// `file`: the config.json from which `config` was read.
OpenedModel open_decoder(const DecoderConfig& config, const ConfigReader& file,
                         const ModelChoices& choices);

// The units alone.
Model make_decoder(const DecoderConfig& config, const ModelChoices& choices);

}  // namespace fm::model

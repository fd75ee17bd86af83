// A decoder as a row of units: embedding, blocks, head.
#pragma once

#include "model/families/decoder_config.h"
#include "model/families/family.h"

namespace fm::model {

// `file`: what `config` was read from.
OpenedModel open_decoder(const DecoderConfig& config, const ConfigReader& file,
                         const ModelChoices& choices);

// The units alone.
Model make_decoder(const DecoderConfig& config, const ModelChoices& choices);

}  // namespace fm::model

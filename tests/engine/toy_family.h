// A model family that the product does not know: embedding, linear blocks, head; fp32, untied.
#pragma once

#include "model/opened_model.h"

namespace fm::model {

inline constexpr std::int64_t kToyVocab = 37;
inline constexpr std::int64_t kToyHidden = 16;

OpenedModel open_toy();

}  // namespace fm::model

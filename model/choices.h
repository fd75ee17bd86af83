// What a run decides of a model, beside config.json.
#pragma once

#include <functional>
#include <string>

#include "core/param_table.h"
#include "core/types.h"

namespace fm::model {

struct ModelChoices {
  core::NoDecay no_decay = {};
  core::DType element = core::DType::kF32;  // or kBF16, kF16
  // Whether a parameter is trained, by its name; the others are frozen. Empty: all are.
  std::function<bool(const std::string&)> trains = {};
};

}  // namespace fm::model

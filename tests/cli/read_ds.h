// A DeepSpeed JSON text, read as the program reads it.
#pragma once

#include <string>

#include "cli/deepspeed/ds_config.h"
#include "core/text.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {

inline engine::TrainOptions read(const std::string& json, PrecisionFlag precision = {},
                                 const TrainerArguments& trainer = {}) {
  engine::TrainOptions options;
  apply_ds_config({json, "t.json"}, {precision}, trainer, options);
  return options;
}

inline std::string refusal(const std::string& json, PrecisionFlag precision = {}) {
  return refusal_of([&] { read(json, precision); });
}

inline std::string notes(const std::string& json, PrecisionFlag precision = {}) {
  return core::join(read(json, precision).notes, "\n");
}

}  // namespace fm::cli

// JSONL that needs no tokenizer of a folder, in the words of prepare_text.
#pragma once

#include <cstdint>
#include <string>

#include "text/prepare/prepare_text.h"

namespace fm::prepare {

// {"input_ids": [...], "labels": [...], "attention_mask": [...]}, see data::ids_reader.
Recipe id_recipe(std::int64_t vocab);

// The bytes of the text in `field`, see data::text_reader.
Recipe byte_recipe(const std::string& field);

}  // namespace fm::prepare

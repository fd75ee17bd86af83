// From JSON values to typed ones, as lax as pydantic, which DeepSpeed reads its blocks with:
// 5e8, 5e8 as text and true are integers when they are integral; "yes", "on", 1 are booleans.
#pragma once

#include <optional>

#include "cli/deepspeed/ds_config_keys.h"
#include "cli/deepspeed/hjson.h"
#include "core/types.h"

namespace fm::cli {

std::optional<bool> to_bool(const JsonTree& value);
std::optional<std::int64_t> to_int(const JsonTree& value);
std::optional<double> to_number(const JsonTree& value);

// The value at "zero_optimization.stage" below `root`, or null.
const JsonTree* find_path(const JsonTree& root, const std::string& path);

// The item of a list of one; any other value itself.
const JsonTree& sole(const JsonTree& value);

// The text "auto": whoever wrote it wants the trainer to decide.
bool is_auto(const JsonTree& value);

// Throws UserError (10) when the value of the key `path` does not have the type of its row. `where`
// is "file:line".
void check_type(const KeyRow& row, const std::string& path, const JsonTree& value,
                const std::string& where);

// The value is one of row.plain, compared by type; text in any case.
bool is_plain(const KeyRow& row, const JsonTree& value);

// fp32, float32, float, fp16, float16, half, bf16, bfloat16, in any case.
std::optional<core::DType> dtype_named(std::string_view word);

// yes, true, t, y, on, 1 and no, false, f, n, off, 0, in any case.
std::optional<bool> parse_bool(std::string_view word);

}  // namespace fm::cli

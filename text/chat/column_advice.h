// Which of a row's fields are surely meant by names of their own, for a refusal that helps.
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace fm::chat {

// Of a row without a form: "say what the fields are: --columns question=prompt,answer=completion",
// or "" where nothing is sure.
std::string advice_on_columns(const jinja::Value& row);

// How the good answers of preference data are trained: "--columns chosen=completion,...".
std::string columns_of_chosen(const jinja::Value& row);

}  // namespace fm::chat

// Rows whose columns have other names than those of docs/text.md.
#pragma once

#include <string>

#include "text/data/columns.h"
#include "text/jinja/value.h"

namespace fm::prepare {

// Gives the columns of an object the names that `columns` says. Returns what is wrong with the row,
// or "": a column is missing, or two that hold something get one name.
std::string rename_columns(const data::Columns& columns, jinja::Value& row);

}  // namespace fm::prepare

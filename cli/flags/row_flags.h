// --columns and --sample_by, which fmengine-train and fmengine-tokenize have alike.
#pragma once

#include "cli/flags/flag_values.h"
#include "text/data/sample_source.h"

namespace fm::cli {

// Throws UserError (10) for words that are none of theirs.
data::RowOptions read_row_options(const FlagValues& flags);

}  // namespace fm::cli

#include "cli/flags/row_flags.h"

namespace fm::cli {

data::RowOptions read_row_options(const FlagValues& flags) {
  data::RowOptions rows;
  for (const std::string& words : flags.list("columns")) rows.columns.add(words);
  const auto sample_by =
      flags.choice<data::SampleBy>("sample_by", {{"line", data::SampleBy::kLine},
                                                 {"paragraph", data::SampleBy::kParagraph},
                                                 {"document", data::SampleBy::kDocument}});
  if (flags.given("sample_by")) rows.sample_by = sample_by;
  return rows;
}

}  // namespace fm::cli

#include "text/prepare/renamed_row.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "text/chat/conversation.h"

namespace fm::prepare {

std::string rename_columns(const data::Columns& columns, jinja::Value& row) {
  if (columns.empty()) return "";
  const jinja::Entries& entries = row.dict()->entries;
  std::vector<std::string> names;
  for (const auto& [name, value] : entries) names.push_back(name);
  if (std::string problem = columns.check(names); !problem.empty()) return problem;
  jinja::Entries renamed;
  for (const auto& [name, value] : entries) {
    const std::string_view meaning = columns.meaning_of(name);
    const auto other =
        std::ranges::find_if(renamed, [&](const auto& each) { return each.first == meaning; });
    if (other == renamed.end()) {
      renamed.emplace_back(meaning, value);
    } else if (!chat::is_filled(other->second)) {
      other->second = value;
    } else if (chat::is_filled(value)) {
      return core::concat("one column may be \"", meaning, "\", and by --columns ", columns.words(),
                          " two are; rename the other, too, as in ", meaning, "=other_", meaning);
    }
  }
  row = jinja::make_dict(std::move(renamed));
  return "";
}

}  // namespace fm::prepare

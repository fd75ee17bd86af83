#include "text/data/columns.h"

#include <algorithm>
#include <set>

#include "core/check.h"
#include "core/text.h"

namespace fm::data {

void Columns::add(std::string_view words) {
  for (const std::string& pair : core::split(words, ',')) {
    const std::size_t equals = pair.find('=');
    FM_USER_CHECK(equals != pair.npos && equals > 0 && equals + 1 < pair.size(),
                  "--columns must be COLUMN=MEANING, or several with commas between them, as in "
                  "question=prompt,answer=completion; correct it (",
                  words, ")");
    const std::string column = pair.substr(0, equals);
    FM_USER_CHECK(meanings_.try_emplace(column, pair.substr(equals + 1)).second,
                  "--columns must name a column once; leave one out (", column, " in ", words, ")");
  }
}

bool Columns::has_meaning(std::string_view meaning) const {
  return std::ranges::any_of(meanings_, [&](const auto& each) { return each.second == meaning; });
}

std::string_view Columns::meaning_of(std::string_view column) const {
  const auto found = meanings_.find(column);
  return found == meanings_.end() ? column : std::string_view(found->second);
}

std::string Columns::check(std::span<const std::string> columns) const {
  std::set<std::string_view> meanings;
  for (const std::string& column : columns) meanings.insert(meaning_of(column));
  for (const auto& [column, meaning] : meanings_) {
    if (meanings.contains(meaning)) continue;
    return core::concat("a column \"", column, "\" is required by --columns ", column, "=", meaning,
                        "; name one that the row has (", core::shortened(core::join(columns, ", ")),
                        ")");
  }
  return "";
}

std::string Columns::words() const {
  std::string words;
  for (const auto& [column, meaning] : meanings_) {
    words += core::concat(words.empty() ? "" : ",", column, "=", meaning);
  }
  return words;
}

}  // namespace fm::data

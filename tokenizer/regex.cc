#include "tokenizer/regex.h"

#include <oniguruma.h>

#include <cstdio>

#include "core/check.h"
#include "tokenizer/unicode.h"

namespace fm::tokenizer {
namespace {

const OnigUChar* bytes_of(std::string_view text, std::size_t at = 0) {
  return reinterpret_cast<const OnigUChar*>(text.data()) + at;
}

std::string reason(int code) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(text, code);
  return std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
}

bool initialize() {
  OnigEncoding used[] = {ONIG_ENCODING_UTF8};
  return onig_initialize(used, 1) == ONIG_NORMAL;
}

// Where a match was found. Freed when it goes.
class Region {
 public:
  Region() : region_(onig_region_new()) {}
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() { onig_region_free(region_, 1); }
  OnigRegion* get() const { return region_; }

 private:
  OnigRegion* region_;
};

// "[\p{Lu}\x{1C89}-\x{1C89}]" of "Lu", with what came after Unicode 14.
std::string widened(std::string_view property, bool negated) {
  std::string ranges;
  for (const NewRange& range : ranges_since_unicode_14()) {
    if (!range.category.starts_with(property)) continue;
    char text[64];
    std::snprintf(text, sizeof(text), "\\x{%X}-\\x{%X}", static_cast<unsigned>(range.first),
                  static_cast<unsigned>(range.last));
    ranges += text;
  }
  return core::concat(negated ? "[^" : "[", "\\p{", property, "}", ranges, "]");
}

}  // namespace

struct Regex::Compiled {
  regex_t* regex = nullptr;
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { onig_free(regex); }
};

std::string with_new_characters(const std::string& pattern) {
  std::string wide;
  for (std::size_t at = 0; at < pattern.size();) {
    const bool escapes = pattern[at] == '\\' && at + 1 < pattern.size();
    const bool property = escapes && (pattern[at + 1] == 'p' || pattern[at + 1] == 'P') &&
                          at + 2 < pattern.size() && pattern[at + 2] == '{';
    const std::size_t close = property ? pattern.find('}', at) : std::string::npos;
    if (close == std::string::npos) {
      wide += pattern.substr(at, escapes ? 2 : 1);
      at += escapes ? 2 : 1;
      continue;
    }
    std::string name = pattern.substr(at + 3, close - at - 3);
    bool negated = pattern[at + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    // Only general categories of the table; a script or a longer name stays as it is.
    const bool known = name.size() <= 2 && std::string_view("LMNPS").find(name[0]) != name.npos &&
                       !(name.size() == 2 && (name[0] == 'P' || name[0] == 'S'));
    wide += known ? widened(name, negated) : pattern.substr(at, close + 1 - at);
    at = close + 1;
  }
  return wide;
}

Regex::Regex(const std::string& pattern, const std::string& where) : where_(where) {
  static const bool initialized = initialize();
  FM_CHECK(initialized, "Oniguruma must start");
  const auto compiled = std::make_shared<Compiled>();
  const std::string wide = with_new_characters(pattern);
  OnigErrorInfo info;
  const int code = onig_new(&compiled->regex, bytes_of(wide), bytes_of(wide, wide.size()),
                            ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
  FM_DATA_CHECK(code == ONIG_NORMAL, where, ": a regular expression of Oniguruma is required (",
                code == ONIG_NORMAL ? "" : reason(code), ": ", pattern, ")");
  compiled_ = compiled;
}

void Regex::find_all(std::string_view text, std::vector<Match>& found) const {
  const Region region;
  std::size_t from = 0;   // where the search goes on
  std::size_t prior = 0;  // end of the last match
  bool any = false;
  while (from <= text.size() && !text.empty()) {
    onig_region_clear(region.get());
    const int at = onig_search(compiled_->regex, bytes_of(text), bytes_of(text, text.size()),
                               bytes_of(text, from), bytes_of(text, text.size()), region.get(),
                               ONIG_OPTION_NONE);
    if (at == ONIG_MISMATCH) break;
    FM_DATA_CHECK(at >= 0, where_, ": the pattern must match within Oniguruma's limits (",
                  at < 0 ? reason(at) : "", ")");
    const auto begin = static_cast<std::size_t>(region.get()->beg[0]);
    const auto end = static_cast<std::size_t>(region.get()->end[0]);
    if (begin == end && any && prior == end) {  // no empty match directly behind a match
      from += from < text.size() ? code_point_at(text, from).size : 1;
      continue;
    }
    if (prior < begin) found.push_back({prior, begin, false});
    found.push_back({begin, end, true});
    from = prior = end;
    any = true;
  }
  if (prior < text.size()) found.push_back({prior, text.size(), false});
}

}  // namespace fm::tokenizer

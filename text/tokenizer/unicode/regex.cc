#include "text/tokenizer/unicode/regex.h"

#include <oniguruma.h>

#include <cstdint>
#include <cstdio>
#include <ctime>

#include "core/check.h"
#include "core/text.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

const OnigUChar* bytes_of(std::string_view text, std::size_t at = 0) {
  return reinterpret_cast<const OnigUChar*>(text.data()) + at;
}

// `info` is read for errors of patterns that have a name in them.
std::string reason(int code, OnigErrorInfo info = {}) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int size = onig_error_code_to_str(text, code, &info);
  return std::string(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
}

// Patterns are programs of strangers. Oniguruma's own limit is 10 million retries at one place of
// a text; a search over all of it has a limit, too, and the clock is looked at between searches.
constexpr std::size_t kMostPatternBytes = 10'000;     // compiling takes the square of it
constexpr unsigned long kMostRetries = 100'000'000;   // of one search: half a second
constexpr unsigned long kMostRetriesPerByte = 1'000;  // beside these
constexpr unsigned kMostStackEntries = 8'000'000;     // of 48 bytes

bool initialize() {
  OnigEncoding used[] = {ONIG_ENCODING_UTF8};
  return onig_initialize(used, 1) == ONIG_NORMAL &&
         onig_set_match_stack_limit_size(kMostStackEntries) == ONIG_NORMAL;
}

// The processor time that a text may take: a hundred times what any pattern needs.
class TimeLimit {
 public:
  explicit TimeLimit(std::size_t bytes) : most_s_(10 + 20e-6 * static_cast<double>(bytes)) {}

  // The clock is looked at in every 64th call.
  bool is_over() {
    if (++calls_ % 64 != 0) return false;
    const double now_s = seconds();
    if (begin_s_ == 0) begin_s_ = now_s;
    return now_s - begin_s_ > most_s_;
  }
  double most_s() const { return most_s_; }

 private:
  static double seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }

  double most_s_;
  double begin_s_ = 0;
  int calls_ = 0;
};

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
  FM_DATA_CHECK(pattern.size() <= kMostPatternBytes, where,
                ": a regular expression may have at most ", kMostPatternBytes,
                " bytes; write it shorter (", pattern.size(), ")");
  const std::string wide = with_new_characters(pattern);
  OnigErrorInfo info;
  const int code = onig_new(&compiled->regex, bytes_of(wide), bytes_of(wide, wide.size()),
                            ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_RUBY, &info);
  FM_DATA_CHECK(code == ONIG_NORMAL, where, ": a regular expression of Oniguruma is required (",
                code == ONIG_NORMAL ? "" : reason(code, info), ": ", core::shortened(pattern), ")");
  compiled_ = compiled;
}

// The searches in one text.
class Regex::Search {
 public:
  Search(const Regex& regex, std::string_view text)
      : regex_(regex), text_(text), limit_(text.size()), param_(onig_new_match_param()) {
    FM_CHECK(param_ != nullptr, "Oniguruma must have memory");
    onig_initialize_match_param(param_.get());
    onig_set_retry_limit_in_search_of_match_param(param_.get(),
                                                  kMostRetries + kMostRetriesPerByte * text.size());
  }

  // Whether there is a match at `from` or behind it.
  bool find(std::size_t from) {
    onig_region_clear(region_.get());
    const int at = onig_search_with_param(regex_.compiled_->regex, bytes_of(text_),
                                          bytes_of(text_, text_.size()), bytes_of(text_, from),
                                          bytes_of(text_, text_.size()), region_.get(),
                                          ONIG_OPTION_NONE, param_.get());
    FM_DATA_CHECK(at >= 0 || at == ONIG_MISMATCH, regex_.where_,
                  ": the pattern must match within Oniguruma's limits; write it simpler (",
                  at < 0 ? reason(at) : "", ")");
    FM_DATA_CHECK(!limit_.is_over(), regex_.where_, ": the pattern must match within ",
                  limit_.most_s(), " s of processor time; write it simpler (a text of ",
                  text_.size(), " bytes)");
    return at >= 0;
  }
  std::size_t begin() const { return static_cast<std::size_t>(region_.get()->beg[0]); }
  std::size_t end() const { return static_cast<std::size_t>(region_.get()->end[0]); }

 private:
  struct FreeParam {
    void operator()(OnigMatchParam* param) const { onig_free_match_param(param); }
  };

  const Regex& regex_;
  std::string_view text_;
  Region region_;
  TimeLimit limit_;
  std::unique_ptr<OnigMatchParam, FreeParam> param_;
};

void Regex::find_all(std::string_view text, std::vector<Match>& found) const {
  Search search(*this, text);
  std::size_t from = 0;   // where the search goes on
  std::size_t prior = 0;  // end of the last match
  bool any = false;
  while (from <= text.size() && !text.empty() && search.find(from)) {
    const std::size_t begin = search.begin();
    const std::size_t end = search.end();
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

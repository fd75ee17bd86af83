#include "text/tokenizer/unicode/normal_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "core/check.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

int options_of(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kNfc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case UnicodeForm::kNfd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case UnicodeForm::kNfkc: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case UnicodeForm::kNfkd: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

std::u32string decompose(char32_t value, int options) {
  std::u32string parts(32, U'\0');
  int last_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(value), reinterpret_cast<utf8proc_int32_t*>(parts.data()),
      static_cast<utf8proc_ssize_t>(parts.size()), static_cast<utf8proc_option_t>(options),
      &last_class);
  FM_CHECK(count >= 0 && count <= 32, "a character has at most 18 parts (", count, ")");
  parts.resize(static_cast<std::size_t>(count));
  return parts;
}

// Appends the form of `text`, which begins where no earlier character has an effect.
void append_form(std::string& made, std::string_view text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                                             static_cast<utf8proc_option_t>(options));
  FM_CHECK(size >= 0, "valid UTF-8 has a normal form (", utf8proc_errmsg(size), ")");
  made.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
  std::free(mapped);
}

}  // namespace

NormalForm::NormalForm(UnicodeForm form)
    : options_(options_of(form)), inert_(kCodePoints, true), unknown_(kCodePoints, false) {
  for (const NewRange& range : forms_since_unicode_9()) {
    std::fill(unknown_.begin() + range.first, unknown_.begin() + range.last + 1, true);
  }
  for (char32_t value = 0xA0; value < kCodePoints; ++value) {
    if ((value < 0xD800 || value >= 0xE000) && !unknown_[value]) mark_active(value);
  }
}

// Marks `value` where it changes or moves, and what may compose with a character before it.
void NormalForm::mark_active(char32_t value) {
  if (utf8proc_get_property(static_cast<utf8proc_int32_t>(value))->combining_class != 0) {
    inert_[value] = false;
  }
  const int apart = (options_ & ~UTF8PROC_COMPOSE) | UTF8PROC_DECOMPOSE;
  if (decompose(value, apart) == std::u32string(1, value)) return;
  if ((options_ & UTF8PROC_COMPOSE) == 0) {
    inert_[value] = false;
    return;
  }
  std::string alone;
  std::string composed;
  append_utf8(alone, value);
  append_form(composed, alone, options_);
  if (composed != alone) inert_[value] = false;
  const std::u32string parts = decompose(value, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  for (std::size_t i = 1; i < parts.size(); ++i) inert_[parts[i]] = false;
}

bool NormalForm::apply(std::string_view text, std::string& made) const {
  std::size_t copied = 0;  // bytes of text whose form stands in `made`
  std::size_t before = 0;  // start of the inert character before `at`
  bool changed = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (inert_[point.value]) {
      before = unknown_[point.value] ? at + point.size : at;
      at += point.size;
      continue;
    }
    // From the inert character before, with which it may compose, to the next inert one.
    std::size_t end = at + point.size;
    while (end < text.size()) {
      const CodePoint next = code_point_at(text, end);
      if (inert_[next.value]) break;
      end += next.size;
    }
    if (!changed) made.clear();
    changed = true;
    const std::size_t begin = std::max(before, copied);
    made.append(text.substr(copied, begin - copied));
    append_form(made, text.substr(begin, end - begin), options_);
    copied = before = at = end;
  }
  if (changed) made.append(text.substr(copied));
  return changed;
}

const NormalForm& normal_form(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::kNfc: {
      static const NormalForm nfc(UnicodeForm::kNfc);
      return nfc;
    }
    case UnicodeForm::kNfd: {
      static const NormalForm nfd(UnicodeForm::kNfd);
      return nfd;
    }
    case UnicodeForm::kNfkc: {
      static const NormalForm nfkc(UnicodeForm::kNfkc);
      return nfkc;
    }
    case UnicodeForm::kNfkd: break;
  }
  static const NormalForm nfkd(UnicodeForm::kNfkd);
  return nfkd;
}

void append_lower(std::string& text, char32_t value) {
  // Pairs that came after utf8proc 2.8's Unicode 15.
  struct Pairs {
    char32_t first;
    char32_t last;
    char32_t lower;  // of the first
  };
  constexpr Pairs kPairs[] = {{0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},
                              {0xA7CC, 0xA7CC, 0xA7CD},    {0xA7CE, 0xA7CE, 0xA7CF},
                              {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},
                              {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},
                              {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};
  if (value == 0x130) {  // the one letter whose lower case is two characters
    text += "i\xCC\x87";
    return;
  }
  for (const Pairs& pairs : kPairs) {
    if (pairs.first <= value && value <= pairs.last) {
      return append_utf8(text, pairs.lower + (value - pairs.first));
    }
  }
  append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))));
}

bool is_combining_mark(char32_t value) {
  if (value == 0x1CF2 || value == 0x1CF3) return true;  // letters since Unicode 12
  return (char_classes()[value] & kMark) != 0 && !is_in(marks_since_unicode_9(), value);
}

bool is_nonspacing_mark(char32_t value) {
  for (const NewRange& range : ranges_since_unicode_14()) {
    if (range.first <= value && value <= range.last) return range.category == "Mn";
  }
  return utf8proc_category(static_cast<utf8proc_int32_t>(value)) == UTF8PROC_CATEGORY_MN;
}

}  // namespace fm::tokenizer

// Unicode's normal forms by utf8proc, as far as Unicode 9 goes: the wheel's tables end there.
// Characters that a form leaves alone are copied at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fm::tokenizer {

enum class UnicodeForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };

// Thread: any, after it was made.
class NormalForm {
 public:
  explicit NormalForm(UnicodeForm form);
  // `text`, valid UTF-8, in this form. False: it is so already, and `made` is untouched.
  bool apply(std::string_view text, std::string& made) const;

 private:
  void mark_active(char32_t value);

  int options_;
  std::vector<bool> inert_;    // of a code point: neither it nor a neighbour changes because of it
  std::vector<bool> unknown_;  // to the wheel's tables, so that utf8proc must not see it
};

// The one of a form, made when it is first asked for.
const NormalForm& normal_form(UnicodeForm form);

// Lower case as Rust's str::to_lowercase of single characters.
void append_lower(std::string& text, char32_t value);
// M by the tables of the wheel's normaliser.
bool is_combining_mark(char32_t value);
bool is_nonspacing_mark(char32_t value);

}  // namespace fm::tokenizer

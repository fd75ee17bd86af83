// Flags and keys that people bring from other programs: Hugging Face's Trainer, its run_clm.py and
// TRL, axolotl, LLaMA-Factory, Megatron-LM and torchtitan. A row says what a name is here.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fm::cli {

struct ForeignKey {
  // Names that have the same answer, with spaces between them. Parts of a nested key have dots
  // between them, and "[]" behind a list: "datasets[].path".
  std::string_view names;
  // What is written instead, by the value:
  //   map    = [entry {"; " entry}]       an empty map honours no value
  //   entry  = values ":" {" " word}      no word: the value changes nothing
  //   values = value {"," value} | "*"    "*": any other value
  //   word   = "--flag=" text             "$" is the value
  //          | "?--flag=" text            where nothing else says that flag
  //          | "!"                        `why` is said even where a file has many keys
  std::string_view map;
  std::string_view why;  // of what has no effect or is not here, and what to do
  // Flags of ours that take the place of the key: what it says is of no interest beside them.
  std::string_view instead = {};
};

enum class Dialect : std::uint8_t { kTrainer, kAxolotl, kFactory };
std::string_view name_of(Dialect dialect);

std::span<const ForeignKey> trainer_keys();  // and of run_clm.py and TRL
std::span<const ForeignKey> parallel_keys();
std::span<const ForeignKey> axolotl_keys();
std::span<const ForeignKey> factory_keys();

// A row that has the name (with underscores), or null.
const ForeignKey* find_key(std::span<const ForeignKey> rows, std::string_view name);

// A flag of ours and what it is given.
struct FlagWords {
  std::string flag;
  std::vector<std::string> values;
  bool is_default = false;  // counts where nothing else says that flag
};
// What values become.
struct Translated {
  std::vector<FlagWords> flags;
  bool is_said = false;  // "!" stands there
};
// Nothing where they cannot be honoured. Several values are those of a list.
std::optional<Translated> translate(const ForeignKey& key, const std::vector<std::string>& values);

// Whether the words say no value at all: "", none, null.
bool says_nothing(std::string_view value);

// For messages and docs/migration.md: "use --max_seq_len", "no effect: ...", "only false: ...".
std::string describe(const ForeignKey& key);

// What is wrong with a value that is not honoured: "cannot be honoured, only false can: ...".
std::string refusal_of(const ForeignKey& key, const std::string& written);

}  // namespace fm::cli

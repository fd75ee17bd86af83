// The one table of every key that DeepSpeed 0.19's JSON knows (and the few that FMEngine and we
// add), each with what fmengine does about it. Source: deepspeed/runtime/config.py and the files
// it reads. What cannot have an effect inside a block is a row of names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fm::cli {

enum class KeyType : std::uint8_t {
  kBool,
  kInt,
  kCount,  // int >= 0
  kNumber,
  kShare,  // number from 0 to 1
  kRate,   // number, or one for each parameter group, of which there is one: [number]
  kText,
  kList,
  kTexts,   // list of texts, or one text where there are no `choices`
  kAny,     // content not looked at
  kSwitch,  // block, content not looked at; it is on when `enabled` is true anywhere inside it,
            // or when it is not empty and has no `enabled`
  kBlock,   // block; an unknown key inside is refused
  kOpen,    // block; an unknown key inside is noted
};

enum class Verdict : std::uint8_t {
  kHonoured,
  kIgnored,    // because `why`; noted when the value is not `plain`
  kRefused,    // because `why`; only when the value is not `plain`
  kPrecision,  // as kRefused, but --precision fp32 overrides it by name
  kElement,    // judged together (apply_precision), but --precision fp32 overrides it by name
};

struct KeyRow {
  std::string_view
      path;  // "zero_optimization.stage"; "wandb.group|team" is several keys of a block
  KeyType type;
  std::string_view plain;  // values that change nothing, usually DeepSpeed's default: "false|null"
  Verdict verdict;
  std::string_view why;      // continues "ignored: KEY: " or "KEY = VALUE: "; how it is honoured
  std::string_view choices;  // the only values of a kText (any case) or in a kTexts:
                             // "ignore|warn|fail"; "": free
};

// A key that DeepSpeed moved: the value of `old_path` counts as `new_path`'s.
struct DeprecatedKey {
  std::string_view old_path;
  std::string_view new_path;
};

const std::vector<KeyRow>& ds_config_keys();
std::span<const DeprecatedKey> deprecated_keys();

// The row of a path ("aio.queue_depth"), or null.
const KeyRow* find_key(std::string_view path);
// Names of the rows directly below a block ("" is the top level), for suggestions.
std::vector<std::string> keys_below(std::string_view block);

// The one block that has a key of this name, "" being the top level; none: no block, or several.
std::optional<std::string> block_of(std::string_view name);

// The path of the key that somebody means who writes it as a flag: "lr" is "optimizer.params.lr";
// "" when there is none.
std::string path_of_flag(std::string_view name);

}  // namespace fm::cli

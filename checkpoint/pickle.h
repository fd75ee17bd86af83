// Python's pickle format, protocols 2 to 5, as far as torch.save writes it (the opcodes and what
// they do: CPython, Lib/pickletools.py). Nothing of it is executed: a call becomes a value that
// says what would be called with what.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace fm::checkpoint {

struct PickleValue {
  enum class PickleKind : std::uint8_t {
    kOther,     // None, a number with a point, one of more than 64 bits
    kNumber,    // a whole number, or a truth value as 0 or 1
    kText,      // text or bytes
    kGlobal,    // a class or function; text: "module name"
    kSequence,  // tuple or list; items
    kMap,       // dict or OrderedDict; items: key, value, key, value
    kForeign,   // what lies outside of the pickle (a persistent id); items: its name
    kCall,      // items: what is called, and its arguments, a sequence
  };
  PickleKind kind = PickleKind::kOther;
  std::int64_t number = 0;
  std::string_view text = {};
  std::vector<std::uint32_t> items = {};  // indices of values
};

// Values name each other by index: equal ones may be shared, and a list may hold itself.
struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;
  std::deque<std::string> names;  // what texts of globals point to

  const PickleValue& operator[](std::uint32_t index) const { return values[index]; }
};

// `bytes` must outlive the answer. Throws UserError (11) with `file_name` and the byte when an
// opcode is unknown or stands where it may not. Memory is at most 200 times the bytes.
Pickle read_pickle(std::string_view bytes, const std::string& file_name);

}  // namespace fm::checkpoint

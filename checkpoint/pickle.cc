#include "checkpoint/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "core/check.h"

namespace fm::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of pickles are little-endian");

using PickleKind = PickleValue::PickleKind;
using Index = std::uint32_t;

constexpr std::string_view kOrderedDict = "collections OrderedDict";

// The stack machine that a pickle is a program of.
class Machine {
 public:
  Machine(std::string_view bytes, const std::string& file_name)
      : bytes_(bytes), file_name_(file_name) {}

  Pickle run() {
    while (true) {
      const auto op = static_cast<unsigned char>(take(1).front());
      if (op == '.') break;
      if (!makes_simple(op) && !makes_text(op) && !makes_compound(op) && !moves(op)) {
        require(false, core::concat("an opcode that torch.save writes is required, not ", int{op}));
      }
    }
    out_.root = pop();
    return std::move(out_);
  }

 private:
  void require(bool condition, std::string_view what) const {
    FM_DATA_CHECK(condition, file_name_, ": ", what,
                  "; get the file again, or save the model as safetensors (byte ", at_,
                  " of its pickle)");
  }
  std::string_view take(std::uint64_t count) {
    require(count <= bytes_.size() - at_, "a pickle must end with STOP, this one is cut off");
    const std::string_view part = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += part.size();
    return part;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    require(end != std::string_view::npos, "a line of a pickle must end");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  void push(PickleValue value) {
    stack_.push_back(static_cast<Index>(out_.values.size()));
    out_.values.push_back(std::move(value));
  }
  void push_number(std::int64_t value) { push({.kind = PickleKind::kNumber, .number = value}); }
  Index pop() {
    require(stack_.size() > floor(), "a pickle must not take more than it put");
    const Index top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleValue& top(PickleKind kind, std::string_view what) {
    require(stack_.size() > floor() && out_.values[stack_.back()].kind == kind, what);
    return out_.values[stack_.back()];
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Index> above_mark() {
    require(!marks_.empty(), "a mark is required");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Index> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<Index> last(std::size_t count) {
    std::vector<Index> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }
  void push_sequence(std::vector<Index> items) {
    push({.kind = PickleKind::kSequence, .items = std::move(items)});
  }

  bool makes_simple(unsigned char op) {
    switch (op) {
      case 'N': push({}); return true;
      case 0x88: push_number(1); return true;
      case 0x89: push_number(0); return true;
      case 'J': push_number(number<std::int32_t>()); return true;
      case 'K': push_number(number<std::uint8_t>()); return true;
      case 'M': push_number(number<std::uint16_t>()); return true;
      case 0x8A: push_long(take(number<std::uint8_t>())); return true;
      case 'G': take(8), push({}); return true;
      default: return false;  // another kind of opcode
    }
  }

  bool makes_text(unsigned char op) {
    switch (op) {
      case 'X':
      case 'B': push_text(take(number<std::uint32_t>())); return true;
      case 0x8C:
      case 'C':
      case 'U': push_text(take(number<std::uint8_t>())); return true;
      case 0x8D:
      case 0x8E: push_text(take(number<std::uint64_t>())); return true;
      case 'c': push_lines(); return true;
      case 0x93: push_global(); return true;
      default: return false;  // another kind of opcode
    }
  }

  bool makes_compound(unsigned char op) {
    switch (op) {
      case ')':
      case ']': push_sequence({}); return true;
      case '}': push({.kind = PickleKind::kMap}); return true;
      case 't': push_sequence(above_mark()); return true;
      case 0x85: push_sequence(last(1)); return true;
      case 0x86: push_sequence(last(2)); return true;
      case 0x87: push_sequence(last(3)); return true;
      case 'a': append(last(1)); return true;
      case 'e': append(above_mark()); return true;
      case 's': set(last(2)); return true;
      case 'u': set(above_mark()); return true;
      case 'Q': push({.kind = PickleKind::kForeign, .items = last(1)}); return true;
      case 'R':
      case 0x81: call(); return true;
      default: return false;  // another kind of opcode
    }
  }

  bool moves(unsigned char op) {
    switch (op) {
      case 0x80: take(1); return true;
      case 0x95: take(8); return true;
      case '(': marks_.push_back(stack_.size()); return true;
      case '0': pop(); return true;
      case 'b': pop(), keep_top(); return true;  // the state of an object, which nobody reads
      case 'q': memo_[number<std::uint8_t>()] = keep_top(); return true;
      case 'r': memo_[number<std::uint32_t>()] = keep_top(); return true;
      case 0x94: memo_[static_cast<Index>(memo_.size())] = keep_top(); return true;
      case 'h': recall(number<std::uint8_t>()); return true;
      case 'j': recall(number<std::uint32_t>()); return true;
      default: return false;  // another kind of opcode
    }
  }

  void push_text(std::string_view text) { push({.kind = PickleKind::kText, .text = text}); }
  void push_long(std::string_view bytes) {
    if (bytes.size() > sizeof(std::int64_t)) {
      push({});
      return;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    const auto unused = static_cast<int>(64 - 8 * bytes.size());
    push_number(bytes.empty() ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
  }
  void push_name(std::string_view module, std::string_view name) {
    push({.kind = PickleKind::kGlobal,
          .text = out_.names.emplace_back(core::concat(module, " ", name))});
  }
  void push_lines() {
    const std::string_view module = line();
    push_name(module, line());
  }
  void push_global() {
    const std::vector<Index> parts = last(2);
    const PickleValue& module = out_.values[parts[0]];
    const PickleValue& name = out_.values[parts[1]];
    require(module.kind == PickleKind::kText && name.kind == PickleKind::kText,
            "a class must have a name");
    push_name(module.text, name.text);
  }
  void append(const std::vector<Index>& items) {
    std::vector<Index>& list = top(PickleKind::kSequence, "only a list has elements").items;
    list.insert(list.end(), items.begin(), items.end());
  }
  void set(const std::vector<Index>& items) {
    require(items.size() % 2 == 0, "every key of a dictionary must have a value");
    std::vector<Index>& map = top(PickleKind::kMap, "only a dictionary has items").items;
    map.insert(map.end(), items.begin(), items.end());
  }
  void call() {
    std::vector<Index> parts = last(2);
    const PickleValue& arguments = out_.values[parts[1]];
    require(arguments.kind == PickleKind::kSequence, "a call must have arguments");
    if (out_.values[parts[0]].text == kOrderedDict && arguments.items.empty()) {
      push({.kind = PickleKind::kMap});
    } else {
      push({.kind = PickleKind::kCall, .items = std::move(parts)});
    }
  }
  Index keep_top() const {
    require(stack_.size() > floor(), "a pickle must not take more than it put");
    return stack_.back();
  }
  void recall(Index key) {
    const auto found = memo_.find(key);
    require(found != memo_.end(), "a pickle must recall what it kept");
    stack_.push_back(found->second);
  }

  std::string_view bytes_;
  const std::string& file_name_;
  std::size_t at_ = 0;
  Pickle out_;
  std::vector<Index> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<Index, Index> memo_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes, const std::string& file_name) {
  return Machine(bytes, file_name).run();
}

}  // namespace fm::checkpoint

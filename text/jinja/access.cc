// Attributes, items and slices, as jinja2's sandbox finds them.
#include <algorithm>
#include <optional>

#include "core/text.h"
#include "text/jinja/arguments.h"
#include "text/jinja/code_points.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace fm::jinja {
namespace {

Value missing(const Value& value, const std::string& name) {
  return Undefined{
      core::concat(kind_name(value), " has no attribute \"", core::shortened(name), '"')};
}

Value loop_attribute(const LoopPtr& loop, const std::string& name) {
  const auto index0 = static_cast<std::int64_t>(loop->index0);
  if (name == "index") return index0 + 1;
  if (name == "index0") return index0;
  if (name == "first") return index0 == 0;
  if (name == "last") return !loop->has(loop->index0 + 2);
  if (name == "length") return loop->length();
  if (name == "revindex") return loop->length() - index0;
  if (name == "revindex0") return loop->length() - index0 - 1;
  if (name == "depth") return std::int64_t{1};  // more in recursive loops, which are refused
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem")
    return index0 == 0 ? Value(Undefined{"there is no previous item"})
                       : loop->items[loop->index0 - 1];
  if (name == "nextitem")
    return loop->has(loop->index0 + 2) ? loop->items[loop->index0 + 1]
                                       : Value(Undefined{"there is no next item"});
  if (name == "cycle")
    return make_function("loop.cycle", [loop](const Arguments& arguments) {
      if (arguments.positional.empty()) fail("loop.cycle needs values");
      return arguments.positional[loop->index0 % arguments.positional.size()];
    });
  if (name == "changed") fail("loop.changed is not supported; compare with loop.previtem");
  return Undefined{core::concat("loop has no attribute \"", core::shortened(name), '"')};
}

const Value* find_entry(const Entries& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == entries.end() ? nullptr : &found->second;
}

// Methods and what else Python's getattr finds.
std::optional<Value> own_attribute(const Value& value, const std::string& name) {
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  if (name.starts_with("__"))
    return Undefined{core::concat("attributes with underscores are not accessible (",
                                  core::shortened(name), ")")};
  if (const auto* names = value.get<NamespacePtr>()) {
    const Value* found = find_entry((*names)->entries, name);
    return found == nullptr ? missing(value, name) : *found;
  }
  if (const auto* loop = value.get<LoopPtr>()) return loop_attribute(*loop, name);
  return method_of(value, name);
}

std::optional<std::int64_t> place_of(const Value& index, std::int64_t count) {
  std::int64_t at = 0;
  if (const bool* truth = index.get<bool>()) {
    at = *truth ? 1 : 0;
  } else if (const auto* whole = index.get<std::int64_t>()) {
    at = *whole;
  } else {
    return std::nullopt;
  }
  if (at < 0) at += count;
  if (at < 0 || at >= count) return std::nullopt;
  return at;
}

std::optional<Value> own_item(const Value& value, const Value& index) {
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  if (const Dict* dict = value.dict()) {
    const Value* found = index.text() == nullptr ? nullptr : dict->find(*index.text());
    if (found == nullptr) return std::nullopt;
    count_value(*found);
    return *found;
  }
  if (const std::string* text = value.text()) {
    if (index.text() != nullptr) return std::nullopt;
    const std::u32string points = decode(*text);
    const auto at = place_of(index, static_cast<std::int64_t>(points.size()));
    if (!at) return std::nullopt;
    return Value(encode({&points[static_cast<std::size_t>(*at)], 1}));
  }
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == SequenceKind::kIterator ||
      sequence->kind == SequenceKind::kView)
    return std::nullopt;
  const auto at = place_of(index, static_cast<std::int64_t>(sequence->items.size()));
  if (!at) return std::nullopt;
  return sequence->items[static_cast<std::size_t>(*at)];
}

// A slice's bounds as places: PySlice_AdjustIndices.
struct Places {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};

std::optional<std::int64_t> read_bound(const Value* bound) {
  if (bound == nullptr || bound->is<None>()) return std::nullopt;
  return need_whole(*bound);
}

Places places_of(const Bounds& bounds, std::int64_t length) {
  const std::optional<std::int64_t> start = read_bound(bounds.start);
  const std::optional<std::int64_t> stop = read_bound(bounds.stop);
  const std::optional<std::int64_t> step = read_bound(bounds.step);
  Places places{.step = std::clamp<std::int64_t>(step.value_or(1), -(length + 1), length + 1)};
  if (step == 0) fail("a slice's step must not be 0");
  const bool forward = places.step > 0;
  const auto adjust = [&](std::int64_t at) {
    if (at < 0) at = at < -length ? -1 : at + length;
    if (at < 0) return forward ? std::int64_t{0} : std::int64_t{-1};
    if (at >= length) return forward ? length : length - 1;
    return at;
  };
  places.start = start ? adjust(*start) : (forward ? 0 : length - 1);
  const std::int64_t end = stop ? adjust(*stop) : (forward ? length : -1);
  const std::int64_t way = forward ? end - places.start : places.start - end;
  const std::int64_t stride = forward ? places.step : -places.step;
  places.count = way <= 0 ? 0 : (way - 1) / stride + 1;
  return places;
}

}  // namespace

Value attribute_of(const Value& value, const std::string& name) {
  if (std::optional<Value> own = own_attribute(value, name)) return *std::move(own);
  if (std::optional<Value> item = own_item(value, name)) return *std::move(item);
  return missing(value, name);
}

Value item_of(const Value& value, const Value& index) {
  if (std::optional<Value> item = own_item(value, index)) return *std::move(item);
  if (const std::string* name = index.text()) {
    if (std::optional<Value> own = own_attribute(value, *name)) return *std::move(own);
    return missing(value, *name);
  }
  return Undefined{core::concat(kind_name(value), " has no such item (", kind_name(index), ")")};
}

Value slice_of(const Value& value, const Bounds& bounds) {
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  const std::string* text = value.text();
  const Sequence* sequence = value.sequence();
  const bool has_places = sequence != nullptr && sequence->kind != SequenceKind::kIterator &&
                          sequence->kind != SequenceKind::kView;
  if (text == nullptr && !has_places) fail(kind_name(value), " has no slices");
  const std::u32string points = text == nullptr ? std::u32string() : decode(*text);
  const std::size_t length = text == nullptr ? sequence->items.size() : points.size();
  const Places places = places_of(bounds, static_cast<std::int64_t>(length));
  std::string letters;
  Values items;
  for (std::int64_t at = 0; at < places.count; ++at) {
    const auto place = static_cast<std::size_t>(places.start + at * places.step);
    if (text != nullptr) {
      append_utf8(letters, points[place]);
    } else {
      items.push_back(sequence->items[place]);
    }
  }
  if (text != nullptr) return letters;
  return make_sequence(sequence->kind, std::move(items));
}

}  // namespace fm::jinja

#include <algorithm>

#include "text/jinja/code_points.h"
#include "text/jinja/filter_rows.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"

namespace fm::jinja {
namespace {

const Value* given(const Bound& arguments, std::size_t parameter) {
  const Value* value = arguments.find(parameter);
  return value == nullptr || value->is<None>() ? nullptr : value;
}

Value in_lower_case(const Value& value) {
  return value.text() == nullptr ? value : Value(lower(*value.text()));
}

// What an item is compared by: the item, or a path of it.
Value key_of(const Value& item, const Value* path, bool case_sensitive) {
  const Value key = path == nullptr ? item : path_of(item, *path);
  return case_sensitive ? key : in_lower_case(key);
}

bool is_iterator(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->kind == SequenceKind::kIterator;
}

Value length_filter(const Value& value, const Bound&) { return length(value); }

Value default_filter(const Value& value, const Bound& arguments) {
  const bool missing = value.is<Undefined>() || (arguments.truth(1, false) && !truthy(value));
  if (!missing) return value;
  return arguments.find(0) == nullptr ? Value("") : *arguments.find(0);
}

Value first_filter(const Value& value, const Bound&) {
  if (is_iterator(value)) {
    const Sequence& sequence = *value.sequence();
    if (sequence.next < sequence.items.size()) return sequence.items[sequence.next++];
    return Undefined{"there is no first item, the list is empty"};
  }
  const Sequence* sequence = value.sequence();
  const Values items = sequence == nullptr ? iterate(value) : Values();
  const Values& all = sequence == nullptr ? items : sequence->items;
  return all.empty() ? Value(Undefined{"there is no first item, the list is empty"}) : all.front();
}

Value last_filter(const Value& value, const Bound&) {
  if (is_iterator(value)) fail("last needs a list; add the filter list");
  const Sequence* sequence = value.sequence();
  const Values items = sequence == nullptr ? iterate(value) : Values();
  const Values& all = sequence == nullptr ? items : sequence->items;
  return all.empty() ? Value(Undefined{"there is no last item, the list is empty"}) : all.back();
}

Value list_filter(const Value& value, const Bound&) { return make_list(iterate(value)); }

Value reverse_filter(const Value& value, const Bound&) {
  Values items = iterate(value);
  std::reverse(items.begin(), items.end());
  if (value.text() != nullptr) return make_text(join_texts(items, ""));
  return make_sequence(is_iterator(value) ? SequenceKind::kList : SequenceKind::kIterator,
                       std::move(items));
}

Value join_filter(const Value& value, const Bound& arguments) {
  Values items = iterate(value);
  if (const Value* path = given(arguments, 1)) {
    for (Value& item : items) item = path_of(item, *path);
  }
  return make_text(
      join_texts(items, arguments.find(0) == nullptr ? "" : to_text(arguments.need(0))));
}

Value items_filter(const Value& value, const Bound&) {
  Values items;
  if (!value.is<Undefined>() && value.dict() == nullptr)
    fail("items needs a dict (", kind_name(value), ")");
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->entries) items.push_back(make_tuple({key, item}));
  }
  return make_sequence(SequenceKind::kIterator, std::move(items));
}

// Stable, as Python's sorted, also where it is reversed.
struct Keyed {
  Value key;
  Value item;
};
Value sorted_list(std::vector<Keyed> keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& left, const Keyed& right) {
    return reverse ? less(right.key, left.key) : less(left.key, right.key);
  });
  Values items;
  for (Keyed& one : keyed) items.push_back(std::move(one.item));
  return make_list(std::move(items));
}

Value sort_filter(const Value& value, const Bound& arguments) {
  const bool case_sensitive = arguments.truth(1, false);
  const Value* path = given(arguments, 2);
  std::vector<Keyed> keyed;
  for (const Value& item : iterate(value)) {
    Values keys;
    if (path != nullptr && path->text() != nullptr) {
      for (const Value& one : split_text(*path->text(), ",", -1))
        keys.push_back(key_of(item, &one, case_sensitive));
    } else {
      keys.push_back(key_of(item, path, case_sensitive));
    }
    keyed.push_back({make_list(std::move(keys)), item});
  }
  return sorted_list(std::move(keyed), arguments.truth(0, false));
}

Value dictsort_filter(const Value& value, const Bound& arguments) {
  if (value.dict() == nullptr) fail("dictsort needs a dict (", kind_name(value), ")");
  const std::string by = arguments.text(1, "key");
  if (by != "key" && by != "value") fail("dictsort sorts by key or value (", by, ")");
  const bool case_sensitive = arguments.truth(0, false);
  std::vector<Keyed> keyed;
  for (const auto& [name, item] : value.dict()->entries) {
    const Value key = by == "key" ? Value(name) : item;
    keyed.push_back({case_sensitive ? key : in_lower_case(key), make_tuple({name, item})});
  }
  return sorted_list(std::move(keyed), arguments.truth(2, false));
}

Value unique_filter(const Value& value, const Bound& arguments) {
  const bool case_sensitive = arguments.truth(0, false);
  Values seen;
  Values kept;
  for (const Value& item : iterate(value)) {
    Value key = key_of(item, given(arguments, 1), case_sensitive);
    if (key.dict() != nullptr ||
        (key.sequence() != nullptr && key.sequence()->kind == SequenceKind::kList))
      fail("unique needs text or numbers (", kind_name(key), ")");
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& one) { return equal(one, key); }))
      continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return make_sequence(SequenceKind::kIterator, std::move(kept));
}

template <bool kLargest>
Value extreme_filter(const Value& value, const Bound& arguments) {
  const bool case_sensitive = arguments.truth(0, false);
  const Values items = iterate(value);
  if (items.empty()) return Undefined{"there is no item, the list is empty"};
  Keyed best{key_of(items[0], given(arguments, 1), case_sensitive), items[0]};
  for (std::size_t at = 1; at < items.size(); ++at) {
    Value key = key_of(items[at], given(arguments, 1), case_sensitive);
    if (kLargest ? less(best.key, key) : less(key, best.key)) best = {std::move(key), items[at]};
  }
  return best.item;
}

Value sum_filter(const Value& value, const Bound& arguments) {
  Value sum = arguments.find(1) == nullptr ? Value(std::int64_t{0}) : arguments.need(1);
  if (sum.text() != nullptr) fail("sum adds numbers or lists; use join for text");
  for (const Value& item : iterate(value)) {
    const Value* path = given(arguments, 0);
    sum = apply(Operator::kAdd, sum, path == nullptr ? item : path_of(item, *path));
  }
  return sum;
}

constexpr FilterRow kRows[] = {
    {"count", {}, length_filter},
    {"d", {"default_value", "boolean"}, default_filter},
    {"default", {"default_value", "boolean"}, default_filter},
    {"dictsort", {"case_sensitive", "by", "reverse"}, dictsort_filter},
    {"first", {}, first_filter},
    {"items", {}, items_filter},
    {"join", {"d", "attribute"}, join_filter},
    {"last", {}, last_filter},
    {"length", {}, length_filter},
    {"list", {}, list_filter},
    {"max", {"case_sensitive", "attribute"}, extreme_filter<true>},
    {"min", {"case_sensitive", "attribute"}, extreme_filter<false>},
    {"reverse", {}, reverse_filter},
    {"sort", {"reverse", "case_sensitive", "attribute"}, sort_filter},
    {"sum", {"attribute", "start"}, sum_filter},
    {"unique", {"case_sensitive", "attribute"}, unique_filter},
};

}  // namespace

std::span<const FilterRow> list_filters() { return kRows; }

Value path_of(const Value& value, const Value& path) {
  if (path.text() == nullptr) return item_of(value, path);
  Value found = value;
  for (const Value& part : split_text(*path.text(), ".", -1)) {
    const std::string& name = *part.text();
    const bool is_number = !name.empty() && name.size() < 10 &&
                           name.find_first_not_of("0123456789") == std::string::npos;
    found = item_of(found, is_number ? Value(std::int64_t{std::stoi(name)}) : part);
  }
  return found;
}

}  // namespace fm::jinja

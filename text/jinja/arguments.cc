#include "text/jinja/arguments.h"

#include <algorithm>

namespace fm::jinja {

Bound::Bound(const Arguments& arguments, std::span<const std::string_view> parameters,
             std::string_view who)
    : values_(parameters.size()), names_(parameters.begin(), parameters.end()), who_(who) {
  if (arguments.positional.size() > parameters.size())
    fail(who, " takes at most ", parameters.size(), " arguments (", arguments.positional.size(),
         ")");
  for (std::size_t at = 0; at < arguments.positional.size(); ++at)
    values_[at] = &arguments.positional[at];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) fail(who, " has no parameter \"", name, '"');
    const Value*& place = values_[static_cast<std::size_t>(found - names_.begin())];
    if (place != nullptr) fail(who, " got its parameter \"", name, "\" twice");
    place = &value;
  }
}

const Value& Bound::need(std::size_t parameter) const {
  if (values_[parameter] == nullptr) fail(who_, " needs its parameter \"", names_[parameter], '"');
  return *values_[parameter];
}

std::string Bound::text(std::size_t parameter, const char* otherwise) const {
  return find(parameter) == nullptr ? otherwise : need_text(*find(parameter));
}

std::int64_t Bound::whole(std::size_t parameter, std::int64_t otherwise) const {
  return find(parameter) == nullptr ? otherwise : need_whole(*find(parameter));
}

bool Bound::truth(std::size_t parameter, bool otherwise) const {
  return find(parameter) == nullptr ? otherwise : truthy(*find(parameter));
}

std::int64_t need_whole(const Value& value) {
  if (const auto* whole = value.get<std::int64_t>()) return *whole;
  if (const bool* truth = value.get<bool>()) return *truth ? 1 : 0;
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  fail("an integer is required (", kind_name(value), ")");
}

const std::string& need_text(const Value& value) {
  if (const std::string* text = value.text()) return *text;
  if (const auto* undefined = value.get<Undefined>()) fail(undefined->why);
  fail("text is required (", kind_name(value), ")");
}

}  // namespace fm::jinja

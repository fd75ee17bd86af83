// The arguments of a filter, a test, a method or a function, by the names of its parameters.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace fm::jinja {

// Arguments by parameter: in order, or by name.
class Bound {
 public:
  // `who` is for messages. Refuses too many arguments, unknown names, and two values for one.
  Bound(const Arguments& arguments, std::span<const std::string_view> parameters,
        std::string_view who);
  // It refers to the arguments.
  Bound(Arguments&& arguments, std::span<const std::string_view> parameters,
        std::string_view who) = delete;

  // nullptr: not given.
  const Value* find(std::size_t parameter) const { return values_[parameter]; }
  const Value& need(std::size_t parameter) const;
  // Values of one type, with what is meant where they are not given.
  std::string text(std::size_t parameter, const char* otherwise) const;
  std::int64_t whole(std::size_t parameter, std::int64_t otherwise) const;
  bool truth(std::size_t parameter, bool otherwise) const;

 private:
  std::vector<const Value*> values_;
  std::vector<std::string_view> names_;
  std::string_view who_;
};

// The integer of an integer or a boolean; refuses others.
std::int64_t need_whole(const Value& value);
// The text of text; refuses others.
const std::string& need_text(const Value& value);

}  // namespace fm::jinja

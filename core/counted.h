// Numbers with what they count.
#pragma once

#include <string>
#include <string_view>

#include "core/check.h"

namespace fm::core {

// "1 row", "2 rows"
template <class Count>
std::string counted(Count count, std::string_view noun) {
  return concat(count, ' ', noun, count == Count{1} ? "" : "s");
}

}  // namespace fm::core

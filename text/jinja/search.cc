#include "text/jinja/search.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "text/jinja/work_limit.h"

namespace fm::jinja {

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  const std::size_t rest = text.size() - from;
  const void* const found = ::memmem(text.data() + from, rest, part.data(), part.size());
  const auto at = found == nullptr
                      ? std::string_view::npos
                      : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  count_work(kItemBytes + part.size() + (found == nullptr ? rest : at - from));
  return at;
}

std::size_t rfind_text(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string wanted(part.rbegin(), part.rend());
  const std::size_t at = find_text(backwards, wanted);
  return at == std::string_view::npos ? at : text.size() - at - part.size();
}

}  // namespace fm::jinja

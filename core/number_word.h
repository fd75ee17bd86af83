// Numbers on a command line, as Python and C read them: "0.", ".5", "+0.1", "1.e-2", "007", and
// "1_000" as Python alone. Not "nan", "inf", hexadecimal ones, or those beyond the type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fm::core {

std::optional<double> number_of(std::string_view word);
std::optional<std::int64_t> integer_of(std::string_view word);

}  // namespace fm::core

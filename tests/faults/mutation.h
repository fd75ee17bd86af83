// Changes of good files, drawn by a random generator.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace fm::faults {

using Random = std::mt19937_64;

inline std::size_t below(Random& random, std::size_t limit) { return random() % limit; }

enum class Kind : std::uint8_t {
  kBytes,      // numbers and lengths of any file
  kJson,       // one JSON value
  kJsonLines,  // one a line
  kTemplate,   // Jinja
  kText,       // lines of words
};

// One change or two, of its content where the kind is known, else of its bytes.
std::string mutated(const std::string& file, Kind kind, Random& random);

// A regular expression of few parts, right or wrong, that may search for very long.
std::string random_pattern(Random& random);

}  // namespace fm::faults

// Which types the sources define, and which names stand for too many of them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace fm::tidy {

// A class, struct, union or enum with a body, e.g. {"Frame", "fm::comm::Watch::Frame"}. A type in
// an anonymous namespace has the path of its source in its full name.
struct TypeDefinition {
  std::string name;
  std::string full_name;
};

// Forward declarations, specialisations and types inside functions do not count. Types in anonymous
// namespaces do: a reader who searches for a name finds them, too.
std::vector<TypeDefinition> types_in(const Source& source);

using Things = std::map<std::string, std::set<std::string>>;  // name -> what it stands for

// The names that stand for more than `most` things.
Things shared_names(const Things& things, std::size_t most);

}  // namespace fm::tidy

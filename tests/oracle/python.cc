#include "tests/oracle/python.h"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace fm::oracle {

std::string python() {
  const char* named = std::getenv("FM_ORACLE_PYTHON");
  std::string found = named != nullptr ? named : FM_SOURCES "/.deps/oracle/bin/python";
  if (access(found.c_str(), X_OK) != 0) {
    throw std::runtime_error(
        "the test oracle is required; run scripts/setup.sh --tests, or set FM_ORACLE_PYTHON to a "
        "Python with what tests/oracle/requirements.txt names (" +
        found + " cannot be run)");
  }
  return found;
}

}  // namespace fm::oracle

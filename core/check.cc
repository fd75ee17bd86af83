#include "core/check.h"

namespace fm::core {

void throw_bug(const char* file, int line, const char* condition, const std::string& message) {
  throw BugError(concat("fmengine defect: ", message, " (", condition, " at ", file, ":", line,
                        "); please report it with the command line and the configuration"));
}

}  // namespace fm::core

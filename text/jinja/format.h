// Python's ways of putting values into text: "%s" % x, "{}".format(x), strftime.
#pragma once

#include <ctime>
#include <string>

#include "text/jinja/value.h"

namespace fm::jinja {

// text % values: %s %r %d %i %u %x %X %o %f %F %e %E %g %G %c %%, with flags, width and precision;
// %(name)s out of a dict.
std::string percent_format(const std::string& text, const Value& values);
// text.format(...): fields {}, {0}, {name} without a conversion or a form.
std::string brace_format(const std::string& text, const Arguments& arguments);
std::string time_text(const std::string& form, std::time_t now);

}  // namespace fm::jinja

#include "engine/shown/grace.h"

#include <algorithm>
#include <cstdio>

#include "core/check.h"

namespace fm::engine {
namespace {

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 10.0 ? "%.1f s" : "%.0f s", seconds);
  return text;
}

}  // namespace

double seconds_left(const Grace& grace, double ago, double now) {
  constexpr double kWarning = 600.0;  // longer before the end it is another signal
  const double before_end = static_cast<double>(grace.ends) - now;
  const double rest = grace.seconds - ago;
  return grace.ends > 0 && before_end < kWarning ? std::max(rest, before_end) : rest;
}

std::string grace_text(const Grace& grace, double save_s) {
  const std::string takes = save_s > 0.0 ? "a save takes " + seconds_text(save_s)
                                         : "how long a save takes shows after the first one";
  return core::concat(takes, "; ", grace.giver, " gives ", seconds_text(grace.seconds),
                      " after SIGTERM");
}

std::string grace_warning(const Grace& grace, double save_s) {
  if (save_s <= grace.seconds) return "";
  return core::concat(
      "a save takes ", seconds_text(save_s), " and would not end in the ",
      seconds_text(grace.seconds), " that ", grace.giver,
      " gives after SIGTERM, so none is begun then, and steps since the last checkpoint are lost; "
      "save more often (--save_steps), or ",
      grace.longer);
}

}  // namespace fm::engine

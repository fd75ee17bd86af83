#include "kernels/pointwise/long_arrays.h"

#include <cstdlib>

#include "core/check.h"
#include "kernels/cpu.h"

namespace fm::kernels {
namespace {

const char* variable_of(ArrayHabit habit) {
  return habit == ArrayHabit::kReadAhead ? "FME_READ_AHEAD" : "FME_PAST_CACHES";
}

bool from_environment(ArrayHabit habit) {
  const char* const wanted = std::getenv(variable_of(habit));
  return choose_habit(habit, wanted == nullptr ? "" : wanted, cpu_is_amd());
}

}  // namespace

bool choose_habit(ArrayHabit habit, std::string_view wanted, bool amd) {
  FM_USER_CHECK(wanted.empty() || wanted == "on" || wanted == "off", variable_of(habit),
                " must be on or off, or unset for what suits the CPU (", variable_of(habit), "=",
                wanted, ")");
  if (!wanted.empty()) return wanted == "on";
  return habit == ArrayHabit::kPastCaches || !amd;
}

bool has_habit(ArrayHabit habit) {
  static const bool kReadAhead = from_environment(ArrayHabit::kReadAhead);
  static const bool kPastCaches = from_environment(ArrayHabit::kPastCaches);
  return habit == ArrayHabit::kReadAhead ? kReadAhead : kPastCaches;
}

std::string_view array_habits() {
  const bool past = has_habit(ArrayHabit::kPastCaches);
  if (has_habit(ArrayHabit::kReadAhead))
    return past ? "read ahead, large sums stored past the caches" : "read ahead";
  return past ? "large sums stored past the caches" : "no hints";
}

}  // namespace fm::kernels

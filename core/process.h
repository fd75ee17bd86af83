// What this process asks of its system: its environment, the name of the host, libraries on
// demand, and to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fm::core {

// The value of a variable, where it is set.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// A line on stderr, without the newline. Gives up when nobody has read for `wait_ms`: a pipe that
// is full, a terminal that is held. One write, so that lines of several processes do not mix.
void print_error_line(std::string_view line, int wait_ms);

// Ends this process with `exit_code` after `delay_ms`, whatever its other threads wait for.
void end_process_in(int delay_ms, int exit_code) noexcept;

// gethostname(2); "?" where the system does not tell.
std::string host_name();
// One for each start of the kernel; "" where the system does not tell.
std::string boot_id();
// /proc/PID/stat from its third field on: the state, ... The 20th of them is when the process
// began. None where there is no such process.
std::vector<std::string> process_stat(std::int64_t pid);
inline constexpr std::size_t kBeganField = 19;

// Libraries that a program loads when it needs them: what few runs use costs the others no start.

// The function `name` of `library`, a file name that is looked for where the program's own
// libraries lie. It stays loaded. UserError (10) when there is none.
void* late_symbol(const char* library, const char* name);

}  // namespace fm::core

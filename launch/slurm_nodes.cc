// The grammar: Slurm, man scontrol ("show hostnames"), and man srun (SLURM_TASKS_PER_NODE).
#include "launch/slurm_nodes.h"

#include <charconv>
#include <cstdint>
#include <string_view>

#include "core/check.h"
#include "core/text.h"

namespace fm::launch {
namespace {

constexpr std::size_t kMostHosts = 100'000;

[[noreturn]] void refuse(const std::string& list) {
  FM_USER_CHECK(false,
                "a list of Slurm must be like gpu[01-03,7],login, or 2(x3),1; set MASTER_ADDR and "
                "MASTER_PORT, or start with torchrun or mpirun (",
                list, ")");
}

std::int64_t number_of(std::string_view digits, const std::string& list) {
  std::int64_t value = -1;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || value < 0) {
    refuse(list);
  }
  return value;
}

// Parts between commas that stand outside of brackets.
std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char letter : list) {
    depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
    if (depth < 0 || depth > 1) refuse(list);
    if (letter == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (depth != 0) refuse(list);
  return parts;
}

// "01-03" or "7", with as many digits as the first has.
std::vector<std::string> numbers_of(const std::string& range, const std::string& list) {
  const std::size_t dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
  const std::int64_t from = number_of(first, list);
  const std::int64_t to = number_of(last, list);
  if (to < from || to - from >= static_cast<std::int64_t>(kMostHosts)) refuse(list);
  std::vector<std::string> out;
  for (std::int64_t value = from; value <= to; ++value) {
    std::string digits = std::to_string(value);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    out.push_back(std::move(digits));
  }
  return out;
}

// One part, whose brackets are expanded from the left.
void expand(const std::string& part, const std::string& list, std::vector<std::string>& hosts) {
  const std::size_t open = part.find('[');
  if (open == std::string::npos) {
    if (part.empty() || hosts.size() >= kMostHosts) refuse(list);
    hosts.push_back(part);
    return;
  }
  const std::size_t close = part.find(']', open);
  for (const std::string& range : core::split(part.substr(open + 1, close - open - 1), ',')) {
    for (const std::string& digits : numbers_of(range, list)) {
      expand(part.substr(0, open) + digits + part.substr(close + 1), list, hosts);
    }
  }
}

}  // namespace

std::vector<std::string> slurm_hosts(const std::string& list) {
  std::vector<std::string> hosts;
  for (const std::string& part : parts_of(list)) expand(part, list, hosts);
  return hosts;
}

std::vector<int> slurm_counts(const std::string& list) {
  std::vector<int> counts;
  for (const std::string& part : core::split(list, ',')) {
    const std::size_t open = part.find("(x");
    const bool repeated = open != std::string::npos;
    if (repeated && !part.ends_with(')')) refuse(list);
    const std::string_view whole = part;
    const std::int64_t tasks = number_of(whole.substr(0, open), list);
    const std::int64_t nodes =
        repeated ? number_of(whole.substr(open + 2, part.size() - open - 3), list) : 1;
    const bool fits = tasks <= INT32_MAX && nodes >= 1 &&
                      nodes <= static_cast<std::int64_t>(kMostHosts - counts.size());
    if (!fits) refuse(list);
    counts.insert(counts.end(), static_cast<std::size_t>(nodes), static_cast<int>(tasks));
  }
  return counts;
}

}  // namespace fm::launch

#include "launch/hostfile.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "core/check.h"
#include "core/text.h"

namespace fm::launch {
namespace {

constexpr int kMostSlots = 10'000;  // of a host

// Words between blanks, up to one that begins with #.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
    if (line[at] == '#') break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// -1: none
int whole_number(const std::string& text) {
  const bool digits = !text.empty() && text.size() < 10 &&
                      std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? std::stoi(text) : -1;
}

// The slots that a choice names, by host; a name alone has all.
std::map<std::string, std::set<int>> named_slots(const std::vector<HostSlots>& hosts,
                                                 const std::string& choice,
                                                 const std::string& flag) {
  std::map<std::string, std::set<int>> named;
  for (const std::string& node : core::split(choice, '@')) {
    const std::vector<std::string> parts = core::split(node, ':');
    FM_USER_CHECK(parts.size() <= 2 && !parts[0].empty(), flag,
                  " must be like worker-0@worker-1:0,2; correct it (", choice, ")");
    const auto host = std::ranges::find(hosts, parts[0], &HostSlots::host);
    FM_USER_CHECK(host != hosts.end(), flag, " must name hosts of the hostfile; correct it (",
                  parts[0], " is none)");
    std::set<int>& slots = named[parts[0]];
    if (parts.size() == 1) slots.insert(host->slots.begin(), host->slots.end());
    if (parts.size() == 1) continue;
    for (const std::string& word : core::split(parts[1], ',')) {
      const int slot = whole_number(word);
      FM_USER_CHECK(std::ranges::find(host->slots, slot) != host->slots.end(), flag,
                    " must name slots of a host, counted from 0; correct it (", parts[0],
                    " has no slot \"", word, "\", but ", host->slots.size(), " slots)");
      slots.insert(slot);
    }
  }
  return named;
}

}  // namespace

std::vector<HostSlots> hosts_in(const std::string& text, const std::string& path) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (const std::string& line : core::split(text, '\n')) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    const bool fits = words.size() == 2 && words[1].starts_with("slots=");
    const int slots = fits ? whole_number(words[1].substr(6)) : -1;
    FM_DATA_CHECK(slots >= 1 && slots <= kMostSlots, path, ":", number,
                  ": a line of a hostfile must be NAME slots=N, N from 1 to ", kMostSlots,
                  "; correct it (", core::shortened(line), ")");
    FM_DATA_CHECK(std::ranges::find(hosts, words[0], &HostSlots::host) == hosts.end(), path, ":",
                  number, ": a host must be named once; remove a line (", words[0], ")");
    HostSlots host{.host = words[0], .slots = {}};
    for (int slot = 0; slot < slots; ++slot) host.slots.push_back(slot);
    hosts.push_back(std::move(host));
  }
  FM_DATA_CHECK(!hosts.empty(), path, ":", number,
                ": a hostfile must name a host; add lines NAME slots=N");
  return hosts;
}

std::vector<HostSlots> chosen_hosts(const std::vector<HostSlots>& hosts, const std::string& include,
                                    const std::string& exclude) {
  FM_USER_CHECK(include.empty() || exclude.empty(),
                "--include and --exclude belong to different choices; keep one (", include, ", ",
                exclude, ")");
  if (include.empty() && exclude.empty()) return hosts;
  const auto named =
      named_slots(hosts, include + exclude, include.empty() ? "--exclude" : "--include");
  std::vector<HostSlots> chosen;
  for (HostSlots host : hosts) {
    const auto of_host = named.find(host.host);
    std::erase_if(host.slots, [&](int slot) {
      const bool there = of_host != named.end() && of_host->second.contains(slot);
      return there == include.empty();
    });
    if (!host.slots.empty()) chosen.push_back(std::move(host));
  }
  FM_USER_CHECK(!chosen.empty(), "a slot must be left to run on; exclude less (", exclude, ")");
  return chosen;
}

std::vector<HostSlots> first_hosts(std::vector<HostSlots> hosts, int nodes, int slots) {
  const int there = static_cast<int>(hosts.size());
  FM_USER_CHECK(nodes <= there && nodes != 0,
                "--num_nodes must be 1 to the hosts of the hostfile; ",
                "add hosts or ask for fewer (--num_nodes ", nodes, ", ", there, " hosts)");
  if (nodes > 0) hosts.resize(static_cast<std::size_t>(nodes));
  for (HostSlots& host : hosts) {
    const int own = static_cast<int>(host.slots.size());
    FM_USER_CHECK(slots <= own && slots != 0,
                  "--num_gpus must be 1 to the slots of each host; ask for fewer (--num_gpus ",
                  slots, ", ", host.host, " has ", own, ")");
    if (slots > 0) host.slots.resize(static_cast<std::size_t>(slots));
  }
  return hosts;
}

std::vector<std::string> variables_in(const std::string& text, const std::string& path) {
  std::vector<std::string> variables;
  int number = 0;
  for (std::string line : core::split(text, '\n')) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos || line[begin] == '#') continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    const std::size_t equals = line.find('=');
    const std::string name = line.substr(0, equals);
    const bool named = equals != line.npos && !name.empty() && (name[0] < '0' || name[0] > '9') &&
                       std::ranges::all_of(name, [](char c) {
                         return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                                (c >= 'a' && c <= 'z');
                       });
    FM_DATA_CHECK(named, path, ":", number,
                  ": a line must be NAME=VALUE or a comment; correct it (", core::shortened(name),
                  ")");
    std::string value = line.substr(equals + 1);
    const bool quoted =
        value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0];
    if (quoted) value = value.substr(1, value.size() - 2);
    variables.push_back(core::concat(name, "=", value));
  }
  return variables;
}

}  // namespace fm::launch

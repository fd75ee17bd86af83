#include "observe/blackbox/divergence.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "core/check.h"

namespace fm::blackbox {
namespace {

using core::BoxRecord;
using core::BoxWords;

struct Posted {
  const BoxView* view = nullptr;
  const BoxRecord* record = nullptr;
};
// By sequence.
using Row = std::map<std::uint64_t, std::vector<Posted>>;

bool same(const BoxRecord& a, const BoxRecord& b) {
  return a.code == b.code && a.dtype == b.dtype && a.partner == b.partner &&
         a.elements == b.elements && a.unit == b.unit;
}

void put_part(std::string& out, std::string_view part) {
  const std::uint64_t bytes = part.size();
  out.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes)).append(part);
}

std::string_view take_part(std::string_view& text) {
  std::uint64_t bytes = 0;
  const bool head = text.size() >= sizeof(bytes);
  if (head) std::memcpy(&bytes, text.data(), sizeof(bytes));
  FM_DATA_CHECK(head && bytes <= text.size() - sizeof(bytes),
                "records of a rank must be whole; they are cut short (", text.size(), " bytes)");
  const std::string_view part = text.substr(sizeof(bytes), bytes);
  text.remove_prefix(sizeof(bytes) + bytes);
  return part;
}

std::optional<Divergence> divergence_in(const Row& row, const std::string& group) {
  for (const auto& [sequence, posted] : row) {
    const Posted& first = posted.front();
    const auto other = std::ranges::find_if(
        posted, [&](const Posted& each) { return !same(*first.record, *each.record); });
    if (other == posted.end()) continue;
    return Divergence{.group = group,
                      .sequence = sequence,
                      .first = first.view->owner,
                      .second = other->view->owner,
                      .first_does = text_of(*first.record, first.view->names),
                      .second_does = text_of(*other->record, other->view->names)};
  }
  return std::nullopt;
}

}  // namespace

std::string text_of(const BoxView& view) {
  std::string out;
  put_part(out, view.owner);
  put_part(out, text_of(view.names));
  std::string records;
  for (const BoxRecord& record : view.records) {
    const BoxWords words = pack(record);
    records.append(reinterpret_cast<const char*>(words.data()), sizeof(words));
  }
  put_part(out, records);
  return out;
}

BoxView view_of(std::string_view text) {
  BoxView view;
  view.owner = take_part(text);
  view.names = core::names_of(take_part(text));
  const std::string_view records = take_part(text);
  for (std::size_t at = 0; at + sizeof(BoxWords) <= records.size(); at += sizeof(BoxWords)) {
    BoxWords words{};
    std::memcpy(words.data(), records.data() + at, sizeof(words));
    BoxRecord record;
    if (unpack(words, record)) view.records.push_back(record);
  }
  return view;
}

std::string text_of(const Divergence& divergence) {
  return core::concat("operation ", divergence.sequence, " of group ", divergence.group, " is ",
                      divergence.first_does, " at ", divergence.first, ", and ",
                      divergence.second_does, " at ", divergence.second);
}

std::optional<Divergence> first_divergence(std::span<const BoxView> views) {
  std::map<std::uint64_t, Row> rows;  // by key of the group
  std::vector<std::pair<std::uint64_t, std::string>> groups;
  for (const BoxView& view : views) {
    std::vector<std::uint64_t> keys;
    for (const core::BoxGroup& group : view.names.groups) {
      keys.push_back(group.key());
      if (rows.try_emplace(keys.back()).second) groups.emplace_back(keys.back(), text_of(group));
    }
    for (const BoxRecord& record : view.records) {
      const bool known = record.group >= 0 && record.group < std::ssize(keys);
      if (!record.is_collective() || !known) continue;
      rows[keys[static_cast<std::size_t>(record.group)]][record.sequence].push_back(
          {&view, &record});
    }
  }
  for (const auto& [key, group] : groups) {
    if (auto found = divergence_in(rows[key], group)) return found;
  }
  return std::nullopt;
}

}  // namespace fm::blackbox

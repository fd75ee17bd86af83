// The fields of a row of ids, beside the ids themselves, that decide what is trained: those of
// Hugging Face's datasets, TRL, verl and SkyRL. JSONL and MDS know the same ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/data/documents.h"

namespace fm::data {

// What a number says of the id at its place.
enum class Meaning : std::uint8_t {
  kId,
  kLabel,     // what is trained there, or kIgnored
  kPresent,   // 0: the id is left out
  kTrained,   // 0: the id is no target
  kPosition,  // counts from 0 to the end of what is present
};

struct RowField {
  std::string_view name;
  Meaning meaning;
};

inline constexpr std::array kRowFields = {
    RowField{"input_ids", Meaning::kId},
    RowField{"labels", Meaning::kLabel},
    RowField{"attention_mask", Meaning::kPresent},
    RowField{"completion_mask", Meaning::kTrained},
    RowField{"assistant_masks", Meaning::kTrained},
    RowField{"loss_mask", Meaning::kTrained},
    RowField{"position_ids", Meaning::kPosition},
};

// The place in kRowFields of a field of that name.
std::optional<std::size_t> find_row_field(std::string_view name);
// Why a list of another name cannot be passed over, where it says what is trained, or which
// documents a row has; else "".
std::string_view why_refused(std::string_view name);

// Inline, since it is asked of every number.
inline bool may_hold(Meaning meaning, std::int64_t number, std::int64_t vocab) {
  switch (meaning) {
    case Meaning::kId: return number >= 0 && number < vocab;
    case Meaning::kLabel: return (number >= 0 && number < vocab) || number == kIgnored;
    case Meaning::kPresent:
    case Meaning::kTrained: return number == 0 || number == 1;
    case Meaning::kPosition: break;
  }
  return static_cast<std::int32_t>(number) == number;  // padding may have -1
}
std::string_view range_of(Meaning meaning);  // in words

// Numbers of the fields that a row has, in the order of kRowFields.
using Row = std::array<std::optional<std::vector<std::int32_t>>, kRowFields.size()>;

// What is trained is what the labels and all masks say; where there are neither, everything. A row
// has ids. Returns what is wrong with it, or "".
std::string make_document(Row& row, Document& document);

}  // namespace fm::data

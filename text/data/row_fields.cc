#include "text/data/row_fields.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace fm::data {
namespace {

using Numbers = std::vector<std::int32_t>;

std::size_t place_of(Meaning meaning) {
  const auto found = std::ranges::find(kRowFields, meaning, &RowField::meaning);
  return static_cast<std::size_t>(found - kRowFields.begin());
}

std::string check_lengths(const Row& row) {
  const Numbers& ids = *row[place_of(Meaning::kId)];
  for (std::size_t at = 0; at < row.size(); ++at) {
    if (!row[at] || row[at]->size() == ids.size()) continue;
    return core::concat("field \"", kRowFields[at].name, "\" must be as long as the ids; correct ",
                        "the row (", row[at]->size(), " and ", ids.size(), ")");
  }
  return "";
}

void leave_out(const Numbers& mask, Numbers& numbers) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < mask.size(); ++at) {
    if (mask[at] == 1) numbers[kept++] = numbers[at];
  }
  numbers.resize(kept);
}

// transformers sees another document where positions do not go on by 1.
std::string check_positions(const Numbers& positions) {
  for (std::size_t at = 0; at < positions.size(); ++at) {
    if (static_cast<std::size_t>(positions[at]) == at) continue;
    return core::concat(
        "field \"position_ids\" must count from 0 to the end of the row; write each document as a "
        "row of its own, without it, and put them side by side with --packing best_fit "
        "--document_attention (position ",
        positions[at], " at place ", at, ")");
  }
  return "";
}

}  // namespace

std::optional<std::size_t> find_row_field(std::string_view name) {
  const auto found = std::ranges::find(kRowFields, name, &RowField::name);
  if (found == kRowFields.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kRowFields.begin());
}

std::string_view why_refused(std::string_view name) {
  constexpr std::string_view kApart[] = {"cu_seqlens", "segment_ids", "seq_lengths",
                                         "sequence_ids"};
  if (std::ranges::find(kApart, name) != std::end(kApart)) {
    return "tells documents of a row apart; write each as a row of its own, without it, and put "
           "them "
           "side by side with --packing best_fit --document_attention";
  }
  const bool mask = name.ends_with("mask") || name.ends_with("masks");
  // The last one is a tokenizer's, and says nothing of training.
  if (!mask || find_row_field(name) || name == "special_tokens_mask") return "";
  return "is not known, and may say what is trained; write \"labels\" with -100, or \"loss_mask\", "
         "in "
         "its place";
}

std::string_view range_of(Meaning meaning) {
  switch (meaning) {
    case Meaning::kId: return "[0, vocab_size)";
    case Meaning::kLabel: return "[0, vocab_size), or -100";
    case Meaning::kPresent:
    case Meaning::kTrained: return "[0, 1]";
    case Meaning::kPosition: break;
  }
  return "[-2^31, 2^31)";
}

std::string make_document(Row& row, Document& document) {
  if (std::string problem = check_lengths(row); !problem.empty()) return problem;
  if (const auto present = std::move(row[place_of(Meaning::kPresent)])) {
    row[place_of(Meaning::kPresent)].reset();
    for (auto& numbers : row) {
      if (numbers) leave_out(*present, *numbers);
    }
  }
  if (const auto& positions = row[place_of(Meaning::kPosition)]) {
    if (std::string problem = check_positions(*positions); !problem.empty()) return problem;
  }
  document.ids = std::move(*row[place_of(Meaning::kId)]);
  document.labels = std::move(row[place_of(Meaning::kLabel)]).value_or(Numbers());
  for (std::size_t at = 0; at < row.size(); ++at) {
    if (!row[at] || kRowFields[at].meaning != Meaning::kTrained) continue;
    if (document.labels.empty()) document.labels = document.ids;
    for (std::size_t id = 0; id < row[at]->size(); ++id) {
      if ((*row[at])[id] == 0) document.labels[id] = kIgnored;
    }
  }
  return "";
}

}  // namespace fm::data

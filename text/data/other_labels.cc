#include "text/data/other_labels.h"

#include <cstring>

#include "core/check.h"
#include "core/crc32c.h"

namespace fm::data {
namespace {

std::int64_t number_at(const core::MappedFile& file, std::size_t byte) {
  std::int64_t number = 0;
  std::memcpy(&number, file.bytes().data() + byte, sizeof(number));
  return number;
}

}  // namespace

OtherLabels::OtherLabels(const std::string& path, std::int64_t ids, std::int64_t vocab)
    : file_(path), count_(file_.bytes().size() / kBytesOfLabel) {
  const std::size_t bytes = file_.bytes().size();
  FM_DATA_CHECK(bytes % kBytesOfLabel == 0, path, ": its size must be a multiple of ",
                kBytesOfLabel, "; write it anew (", bytes, " bytes)");
  std::int64_t last = -1;
  for (std::size_t entry = 0; entry < count_; ++entry) {
    const std::int64_t place = place_of(entry);
    FM_DATA_CHECK(place > last && place < ids, path, ": places must ascend and be ids of the ",
                  "dataset; write it anew (place ", place, " behind ", last, ", ", ids, " ids)");
    FM_DATA_CHECK(label_of(entry) >= 0 && label_of(entry) < vocab, path,
                  ": labels must be in [0, vocab_size); check that dataset and model belong ",
                  "together (label ", label_of(entry), ", vocab_size=", vocab, ")");
    last = place;
  }
  crc_ = core::crc32c(file_.text(), 0);
  file_.check_uncut();
  file_.let_go(file_.bytes());
}

void OtherLabels::put(std::int64_t first, std::span<std::int32_t> labels) const {
  file_.check_unchanged();
  const std::int64_t end = first + std::ssize(labels);
  for (std::size_t entry = entry_from(first); entry < count_; ++entry) {
    const std::int64_t place = place_of(entry);
    if (place < first || place >= end) break;
    labels[static_cast<std::size_t>(place - first)] = static_cast<std::int32_t>(label_of(entry));
  }
  file_.check_uncut();
}

std::int64_t OtherLabels::place_of(std::size_t entry) const {
  return number_at(file_, entry * kBytesOfLabel);
}

std::int64_t OtherLabels::label_of(std::size_t entry) const {
  return number_at(file_, entry * kBytesOfLabel + sizeof(std::int64_t));
}

// The first entry whose place is at least `place`.
std::size_t OtherLabels::entry_from(std::int64_t place) const {
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (place_of(middle) < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace fm::data

#include "text/data/batch_stream.h"

#include <algorithm>

#include "core/check.h"

namespace fm::data {
namespace {

std::int64_t counted(std::span<const std::int32_t> labels) {
  return std::ranges::count_if(labels, [](std::int32_t label) { return label != kIgnored; });
}

}  // namespace

BatchStream::BatchStream(const SampleSource& source, const Layout& layout)
    : source_(source),
      layout_(layout),
      micros_(static_cast<std::size_t>(layout.micros)),
      valid_(micros_.size()) {
  FM_CHECK(layout.micros >= 1 && layout.dp_rank >= 0 && layout.dp_rank < layout.dp_size,
           "layout of ", layout.micros, " micros, data rank ", layout.dp_rank, " of ",
           layout.dp_size);
  FM_CHECK(
      layout.dp_rank < layout.slots && layout.slots <= std::int64_t{layout.micros} * layout.dp_size,
      layout.slots, " slots of ", layout.dp_size, " data ranks");
  for (MicroBatch& micro : micros_) {
    micro.tokens_BT.resize(static_cast<std::size_t>(layout.shape.tokens()));
    micro.labels_BT.resize(static_cast<std::size_t>(layout.shape.tokens()), kIgnored);
    if (!layout.documents_apart) continue;
    micro.starts_BT.resize(static_cast<std::size_t>(layout.shape.batch * layout.shape.row()));
  }
  if (layout.shape.split.ranks() == 1) return;
  row_.resize(static_cast<std::size_t>(layout.shape.row()));
  row_labels_.resize(row_.size());
}

void BatchStream::take_runs(std::span<const std::int32_t> row_T, std::int32_t* to) const {
  for (const core::TokenRun& run : layout_.runs) {
    to = std::copy_n(row_T.begin() + run.first, run.count, to);
  }
}

void BatchStream::keep_apart(std::int64_t sample, std::span<std::int32_t> starts_T,
                             std::span<std::int32_t> labels_T) const {
  for (const std::int32_t start : source_.document_starts(sample)) {
    const auto at = static_cast<std::size_t>(start);
    std::ranges::fill(starts_T.subspan(at), start);
    if (at > 0) labels_T[at - 1] = kIgnored;
  }
}

void BatchStream::load_step(std::int64_t first_sample, std::int64_t end_sample) {
  const auto row_ids = static_cast<std::size_t>(layout_.shape.row());
  const auto own_ids = static_cast<std::size_t>(layout_.shape.seq_len);
  const bool shared = layout_.shape.split.ranks() > 1;
  for (int k = 0; k < layout_.micros; ++k) {
    MicroBatch& micro = micros_[static_cast<std::size_t>(k)];
    std::int64_t& valid = valid_[static_cast<std::size_t>(k)] = 0;
    const std::int64_t slot = std::int64_t{k} * layout_.dp_size + layout_.dp_rank;
    if (slot >= layout_.slots) return;  // empty, and nobody writes into it
    for (std::int64_t b = 0; b < layout_.shape.batch; ++b) {
      const std::size_t at = static_cast<std::size_t>(b) * own_ids;
      const std::int64_t sample = first_sample + slot * layout_.shape.batch + b;
      const std::span own_T = std::span(micro.tokens_BT).subspan(at, own_ids);
      const std::span own_labels_T = std::span(micro.labels_BT).subspan(at, own_ids);
      const std::span tokens_T = shared ? std::span(row_) : own_T;
      const std::span labels_T = shared ? std::span(row_labels_) : own_labels_T;
      source_.read(sample, tokens_T, labels_T);
      if (layout_.documents_apart) {
        const std::size_t row = static_cast<std::size_t>(b) * row_ids;
        keep_apart(sample, std::span(micro.starts_BT).subspan(row, row_ids), labels_T);
      }
      if (sample >= end_sample) std::ranges::fill(labels_T, kIgnored);
      valid += counted(labels_T);
      if (!shared) continue;
      take_runs(tokens_T, own_T.data());
      take_runs(labels_T, own_labels_T.data());
    }
  }
}

std::int64_t BatchStream::count_valid() const {
  std::int64_t total = 0;
  for (const MicroBatch& micro : micros_) total += counted(micro.labels_BT);
  return total;
}

std::int64_t BatchStream::count_valid(int micro) const {
  return valid_[static_cast<std::size_t>(micro)];
}

}  // namespace fm::data

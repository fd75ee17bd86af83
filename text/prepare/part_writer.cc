#include "text/prepare/part_writer.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "core/files/files.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kOnes = std::size_t{1} << 20;  // written at once

}  // namespace

fs::path with_ending(const fs::path& prefix, const char* ending) {
  fs::path out = prefix;
  out += ending;
  return out;
}

PartWriter::PartWriter(const fs::path& prefix, std::int64_t vocab)
    : prefix_(prefix),
      narrow_(vocab <= 1 << 16),
      ids_(std::make_unique<GrowingFile>(with_ending(prefix, ".bin"))),
      lengths_(std::make_unique<GrowingFile>(with_ending(prefix, ".lengths"))) {}

PartWriter::~PartWriter() = default;

void PartWriter::add(const TokenizedLines& lines) {
  add_counted(lines);
  add_labels(lines);
  if (narrow_) {
    std::vector<std::uint16_t> narrow(lines.ids.size());
    std::ranges::transform(lines.ids, narrow.begin(),
                           [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    ids_->put(std::span<const std::uint16_t>(narrow));
  } else {
    ids_->put(std::span<const std::int32_t>(lines.ids));
  }
  lengths_->put(std::span<const std::int32_t>(lines.lengths));
  counts_.documents += std::ssize(lines.lengths);
  counts_.ids += std::ssize(lines.ids);
}

void PartWriter::add_counted(const TokenizedLines& lines) {
  if (lines.counted.empty() && counted_ == nullptr) {
    counts_.counted += std::ssize(lines.ids);
    return;
  }
  if (counted_ == nullptr) {
    counted_ = std::make_unique<GrowingFile>(with_ending(prefix_, ".counted"));
    const std::vector<std::uint8_t> ones(kOnes, 1);
    for (std::int64_t left = counts_.ids; left > 0; left -= std::ssize(ones)) {
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(left, std::ssize(ones)));
      counted_->put(std::span<const std::uint8_t>(ones).first(count));
    }
  }
  std::vector<std::uint8_t> counted = lines.counted;
  counted.resize(lines.ids.size(), 1);
  counts_.counted += std::count(counted.begin(), counted.end(), 1);
  counted_->put(std::span<const std::uint8_t>(counted));
}

void PartWriter::add_labels(const TokenizedLines& lines) {
  if (lines.labels.empty()) return;
  if (labels_ == nullptr) {
    labels_ = std::make_unique<GrowingFile>(with_ending(prefix_, ".labels"));
  }
  counts_.labels += std::ssize(lines.labels);
  for (const OtherLabel& each : lines.labels) {
    labels_->put_one(counts_.ids + each.place);
    labels_->put_one(each.label);
  }
}

void PartWriter::write_index() {
  GrowingFile index(with_ending(prefix_, ".idx"));
  index.put(std::span<const char>("MMIDIDX\0", 9));
  index.put_one<std::uint64_t>(1);
  index.put_one<std::uint8_t>(narrow_ ? 8 : 4);
  index.put_one<std::uint64_t>(static_cast<std::uint64_t>(counts_.documents));
  index.put_one<std::uint64_t>(static_cast<std::uint64_t>(counts_.documents) + 1);
  const auto for_lengths = [&](const auto& body) {
    core::FileStream stream(lengths_->path().string());
    for (std::string_view piece = stream.next(); !piece.empty(); piece = stream.next()) {
      for (; !piece.empty(); piece.remove_prefix(sizeof(std::int32_t))) {
        std::int32_t length = 0;
        std::memcpy(&length, piece.data(), sizeof(length));
        body(length);
      }
    }
  };
  for_lengths([&](std::int32_t length) { index.put_one(length); });
  std::int64_t byte = 0;
  for_lengths([&](std::int32_t length) {
    index.put_one(byte);
    byte += length * std::int64_t{narrow_ ? 2 : 4};
  });
  for (std::int64_t document = 0; document <= counts_.documents; ++document) {
    index.put_one(document);
  }
  index.sync();
}

PartCounts PartWriter::finish() {
  lengths_->flush();
  ids_->sync();
  if (counted_ != nullptr) counted_->sync();
  if (labels_ != nullptr) labels_->sync();
  if (counts_.documents > 0) write_index();
  std::error_code ignored;  // what stays there is none of a dataset
  fs::remove(lengths_->path(), ignored);
  if (counts_.documents == 0) fs::remove(ids_->path(), ignored);
  return counts_;
}

}  // namespace fm::prepare

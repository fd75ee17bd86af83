// Streams whose ids tell where they are: id i of stream s is 1000 s + i.
#pragma once

#include <memory>
#include <vector>

#include "core/check.h"
#include "text/data/sample_source.h"
#include "text/data/token_stream.h"

namespace fm::testing {

class AddressStream : public data::TokenStream {
 public:
  // Documents of these lengths; without any, `flat_size` ids.
  AddressStream(int number, std::vector<std::int64_t> lengths, std::int64_t flat_size = 0)
      : number_(number), size_(flat_size) {
    for (const std::int64_t length : lengths) {
      begins_.push_back(size_);
      size_ += length;
    }
  }
  std::int64_t size() const override { return size_; }
  std::int64_t documents() const override { return std::ssize(begins_); }
  std::int64_t begin_of(std::int64_t index) const override {
    return index == documents() ? size_ : begins_.at(static_cast<std::size_t>(index));
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    FM_CHECK(first >= 0 && first + std::ssize(ids) <= size_, "beyond the stream");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(1000 * number_ + first + static_cast<std::int64_t>(i));
    }
  }
  // A label is minus the id.
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    read(first, labels);
    for (std::int32_t& label : labels) label = -label;
  }
  std::int32_t filler() const override { return 7; }
  std::string describe() const override { return "stream " + std::to_string(number_); }
  std::string fingerprint() const override { return "address " + std::to_string(number_); }

 private:
  int number_;
  std::int64_t size_;
  std::vector<std::int64_t> begins_;
};

inline data::StreamPtr address_stream(int number, std::vector<std::int64_t> lengths,
                                      std::int64_t flat_size = 0) {
  return std::make_shared<AddressStream>(number, std::move(lengths), flat_size);
}

}  // namespace fm::testing

// Rows of several documents.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "text/data/sample_source.h"

namespace fm::engine {

// Random ids; documents of row p begin at 0, at 3 + p % 5, and at 11.
class DocumentRows : public data::SampleSource {
 public:
  std::int64_t samples_per_epoch() const override { return 1000; }
  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    std::mt19937 random(static_cast<std::uint32_t>(position));
    for (std::int32_t& token : tokens_T) token = static_cast<std::int32_t>(random() % 777);
    for (std::int32_t& label : labels_T) label = static_cast<std::int32_t>(random() % 777);
  }
  std::vector<std::int32_t> document_starts(std::int64_t position) const override {
    return {0, static_cast<std::int32_t>(3 + position % 5), 11};
  }
  std::string describe() const override { return "documents"; }
  std::string fingerprint() const override { return "documents"; }
};

}  // namespace fm::engine

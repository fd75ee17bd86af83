// Where samples come from: a deterministic endless global order of rows of seq_len tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/ledger.h"

namespace fm::data {

inline constexpr std::int32_t kIgnored = -100;  // label that is not counted

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual std::int64_t samples_per_epoch() const = 0;
  // The row at `position` (0-based, endless: epoch = position / samples_per_epoch) of the global
  // order: shuffled by (seed, epoch), or that of the file. Both spans hold seq_len ids. Pure: any
  // rank may ask for any position, any number of times.
  virtual void read(std::int64_t position, std::span<std::int32_t> tokens_T,
                    std::span<std::int32_t> labels_T) const = 0;
  virtual std::string describe() const = 0;  // one line for the banner
  // Whatever decides the rows and their order; not where the file lies, which may be moved.
  virtual std::string fingerprint() const = 0;
};

enum class DataFormat : std::uint8_t { kAuto, kJsonl, kTokens };
enum class Packing : std::uint8_t {
  kConcat,       // documents joined with EOS between them, cut into rows of seq_len + 1
  kOneDocument,  // FMEngine: one document per sample, truncated or padded
};
// Of the ids in a token file; kAuto: data/token_types.h.
enum class TokenType : std::uint8_t { kAuto, kU16, kI32, kI64 };

// What a file is read as: `format`, or what its name says when that is kAuto. Throws UserError (10)
// when the name says nothing.
DataFormat format_of(const std::string& path, DataFormat format);

struct SourceOptions {
  std::string path;
  DataFormat format = DataFormat::kAuto;  // kAuto: by file name (.jsonl, .json / .bin, .i32, .npy)
  TokenType token_type = TokenType::kAuto;
  Packing packing = Packing::kConcat;
  std::string text_field = "text";
  std::int64_t seq_len = 128;
  std::int64_t vocab = 0;  // ids must be below; UserError (11) with file and position otherwise
  bool shuffle_windows = false;  // of a token file, anew in each epoch
  std::uint64_t seed = 3407;
  core::Ledger* ledger = nullptr;
};

// Throws UserError (11) naming file and line: what is required, what to do, the value.
std::unique_ptr<SampleSource> open_source(const SourceOptions& options);

}  // namespace fm::data

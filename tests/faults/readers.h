// Every reader of files that come from elsewhere, with good files for it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/faults/mutation.h"

namespace fm::faults {

struct SeedFile {
  std::string name;
  std::string content;
  Kind kind = Kind::kBytes;
  bool fixed = false;  // it is there, and is not changed
};

// How a file is on disk, beneath what is changed of it.
enum class Packed : std::uint8_t { kNot, kGzip, kZstd };

struct Reader {
  std::string name;
  std::vector<std::vector<SeedFile>> seeds;  // folders
  // Reads the folder as a program does. Throws core::Error for what it refuses.
  std::function<void(const std::filesystem::path& folder)> read;
  std::vector<int> codes = {};  // exit codes beside 10 and 11
  Packed packed = Packed::kNot;
  bool patterns = false;  // "@pattern@" in a file becomes a random one
};

// Those of data: ids, text, JSONL, MDS, Megatron, .npy, llm.c.
std::vector<Reader> data_readers();
// Tokenizers, templates, weights, configurations, reports, checkpoints.
std::vector<Reader> model_readers();

}  // namespace fm::faults

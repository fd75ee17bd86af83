// Two models or training states, number by number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"

namespace fm::checkpoint {

// A stored tensor whose bytes stay where they are.
struct ComparedTensor {
  std::string dtype;  // of safetensors: "BF16"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

// How two tensors of one shape differ. Numbers of one type differ where their bits do (NaN of other
// bits, -0 and 0), of two types where their values do; with atol above 0 where they are further
// apart, or one is NaN.
struct TensorDifference {
  std::int64_t elements = 0;  // that differ
  std::int64_t first = -1;    // flat index of the first of them
  double max_abs = 0;         // infinity where one alone is not finite; -1: of no floats
  std::int64_t max_abs_at = -1;
  double max_ulp = 0;  // units in the last place of the narrower type; 0.5: rounded once to it
};

TensorDifference difference_of(const ComparedTensor& a, const ComparedTensor& b, double atol);

// What is said of one tensor that is not the same in both.
struct DifferingTensor {
  std::string role;  // "weights", or what the moments' files are called: "exp_avg"
  std::string name;
  std::string problem;  // absent on one side, or of another shape; "": `numbers` says it
  std::vector<std::int64_t> shape = {};
  std::string types = {};  // "F32", "F32, BF16"
  TensorDifference numbers = {};
};

// One number or word that is not the same: "applied", "optimization.lr".
struct DifferingFact {
  std::string key;
  std::string a;  // "": absent
  std::string b;
  bool counts = true;  // towards the exit code
};

struct Comparison {
  std::int64_t tensors = 0;   // that both have
  std::int64_t elements = 0;  // of them
  std::vector<DifferingTensor> differing;
  std::vector<DifferingFact> facts;
  std::vector<std::string> notes;  // what was not compared, and why

  bool same() const;
};

// Checkpoints (global_stepN), output directories (their newest), Hugging Face folders and files of
// safetensors, in any mixture. Of a checkpoint and another kind only weights are compared.
// MachineError (12) and UserError (11) as of those who read them. Memory does not grow with them.
Comparison compare_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                               double atol);

}  // namespace fm::checkpoint

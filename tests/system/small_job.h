// A small training run as words of a command line, and what it leaves behind.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/system/job.h"

namespace fm::system {

// Hidden 64, 2 layers, vocabulary 264, rows of 32 tokens: a step takes some milliseconds.
std::string small_model(const std::filesystem::path& folder);
// The sizes of the canonical matrix: nothing is a multiple of anything.
std::string odd_model(const std::filesystem::path& folder, bool tied);
// `rows` windows of 33 token ids below 264, drawn by a fixed generator.
std::string small_tokens(const std::filesystem::path& folder, int rows);
// DeepSpeed JSON: 4 samples a step, one per micro-batch, AdamW; `more` holds further keys.
std::string small_config(const std::filesystem::path& folder, int zero_stage,
                         const std::string& more = "");

struct SmallRun {
  std::string config;
  std::string model;
  std::string data;
  std::filesystem::path output;
  int steps = 5;
  int save_steps = 0;
  std::vector<std::string> more;
};
std::vector<std::string> words_of(const SmallRun& run);

// What a run printed, without the breaks of the banner's lines.
std::string unwrapped(std::string printed);

// step -> loss and gradient norm as they stand in metrics.jsonl; the last line of a step wins.
using StepTexts = std::map<int, std::string>;
StepTexts steps_in(const std::filesystem::path& output);
// step -> the number behind `key` there.
StepTexts numbers_in(const std::filesystem::path& output, const std::string& key);
// "" when `got` has steps 1 to `count` and no more, equal to the first of `expected`, else the
// first that is not.
std::string first_difference(const StepTexts& expected, const StepTexts& got, int count);
// Folders of checkpoints killed while they were written, or temporary ones; "" when there is none.
std::string leftovers_in(const std::filesystem::path& output);
// Waits until metrics.jsonl has this step; throws std::runtime_error when the job ends before, and
// after kLimitMs.
void wait_for_step(Job& job, const std::filesystem::path& output, int step);

}  // namespace fm::system

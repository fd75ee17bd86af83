// What fmengine-checkpoint prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/compare_checkpoints.h"
#include "checkpoint/prune_plan.h"
#include "checkpoint/survey.h"
#include "checkpoint/verify_checkpoint.h"

namespace fm::cli {

std::string survey_text(const checkpoint::OutputSurvey& survey);
std::string survey_json(const checkpoint::OutputSurvey& survey);

// `seconds`: of reading it, for the rate.
std::string verified_text(const checkpoint::VerifiedCheckpoint& verified, double seconds);
std::string verified_json(const std::vector<checkpoint::VerifiedCheckpoint>& all);

// `removed`: it has been done; else it is what would be.
std::string pruned_text(const std::vector<checkpoint::PruneChoice>& choices, bool removed);

// The `most` tensors that differ most.
std::string comparison_text(const checkpoint::Comparison& comparison, std::int64_t most);
std::string comparison_json(const checkpoint::Comparison& comparison);

}  // namespace fm::cli

// The rules of the norm, whole or in parts, and of the validation of the previous step.
#include "core/check.h"
#include "pipeline/rank_rules.h"

namespace fm::pipeline {

using core::concat;

std::string RankRules::norm(const Instruction& /*at*/) {
  if (units_.evaluates()) return "evaluation has no gradients";
  if (normed_ || parted_) return "the norm is known already";
  std::string missing = incomplete_reductions();
  if (!missing.empty()) return missing;
  normed_ = true;
  return "";
}

// A norm in parts: rank 0 has its own part, every other rank waits for the previous ones; all but
// the last send on the parts that they know, and then update.
std::string RankRules::norm_part(const Instruction& /*at*/) {
  if (!rules_.validates) return "no step behind this one would validate it";
  if (normed_ || parted_) return "the norm is known already";
  std::string missing = incomplete_reductions();
  if (!missing.empty()) return missing;
  parted_ = true;
  received_ = rank_ == 0;
  return "";
}

std::string RankRules::receive_norm(const Instruction& /*at*/) {
  if (rank_ == 0) return "there is no pipe rank before this one";
  if (!parted_) return "this pipe rank's own part of the norm is not known";
  if (received_) return "this was received already";
  received_ = true;
  normed_ = rank_ + 1 == units_.pipe_ranks();
  return "";
}

std::string RankRules::send_norm(const Instruction& /*at*/) {
  if (rank_ + 1 == units_.pipe_ranks()) return "there is no pipe rank behind this one";
  if (!received_) return "what it sends is not known yet";
  if (normed_) return "this was sent already";
  normed_ = true;
  return "";
}

std::string RankRules::validate(const Instruction& /*at*/) {
  if (!rules_.validates) return "this plan validates nothing";
  if (validated_) return "the last step is validated already";
  validated_ = true;
  return "";
}

std::string RankRules::incomplete_reductions() const {
  for (const int unit : units_.units_of(rank_)) {
    if (!units_.has_backward(unit)) continue;
    if (!reduced(unit)) return concat("the gradient of unit ", unit, " is not reduced");
  }
  if (units_.has_tied_end(rank_) && !tied_) return "the tied gradient is not reduced";
  return "";
}

}  // namespace fm::pipeline

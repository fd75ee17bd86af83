// What a start of a run has done so far, for its mean losses, the time that is left, and the
// summary in the end.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/shown/step_line.h"

namespace fm::engine {

class RunTotals {
 public:
  void add(const StepLine& line);
  // Of the steps since the last call; absent for one, whose line says it.
  std::optional<double> mean_loss();
  // Of the mean of the steps so far, the first left out where there are others: it touches memory
  // for the first time.
  std::optional<double> seconds_left(const StepLine& line) const;
  // Several lines; "" when no step was made. `model`: the folder, "" where nothing was exported.
  std::string summary(const std::string& model, const std::vector<std::string>& next) const;

 private:
  std::int64_t steps_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t ahead_ = 0, redone_ = 0;  // speculative steps; of these
  std::int64_t tokens_ = 0;
  double seconds_ = 0.0;
  double first_seconds_ = 0.0;
  std::int64_t untrained_ = 0;  // steps without a loss
  StepLine first_of_loss_;      // of the steps with one
  StepLine last_of_loss_;
  std::deque<double> last_losses_;  // ten
  double since_ = 0.0;              // sum of the losses since the last mean
  std::int64_t counted_ = 0;
  StepLine last_;
};

}  // namespace fm::engine

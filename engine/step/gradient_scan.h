// Where backward writes what no gradient may be: the first place of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/answers.h"
#include "model/unit.h"

namespace fm::engine {

// Where a non-finite value appeared first on this rank.
struct NonFinite {
  int micro = -1;
  int unit = -1;
  std::string parameter;  // "" when only the loss is known
};

// This CPU knows at once, and looks no further; of a device flags are read when somebody asks, or
// when there is no room for more: backward does not wait for them.
//
// Thread:   the rank's thread.
// Lifetime: memory, model and their tables outlive it.
class GradientScan {
 public:
  // `looks`: how often a step looks at each table.
  GradientScan(const core::RankMemory& memory, const model::Model& model, int looks);

  void begin_step();
  // Whether a number of the gradient [table.elements()], which is written, is NaN, `least` or more,
  // or -least or less. In the order of backward.
  struct Written {
    int micro = 0;
    int unit = 0;
    const core::ParamTable& table;
    const float* gradient = nullptr;
  };
  void look(const core::Work& work, const Written& written, float least);
  // Of the step so far.
  const std::optional<NonFinite>& first(const core::Work& work);

 private:
  struct Scanned {
    int micro = 0;
    int unit = 0;
    const core::ParamTable* table = nullptr;
  };

  core::Answers<std::int32_t> reaches_;  // by entry of the tables of looks_, one behind the other
  std::vector<Scanned> looks_;           // whose flags are not read
  std::size_t used_ = 0;
  std::optional<NonFinite> found_;
};

}  // namespace fm::engine

#include "model/units/token_rows.h"

#include "kernels/pointwise/moves.h"
#include "model/units/lora.h"

namespace fm::model {

ModelChoices with_token_rows(ModelChoices choices, const std::string& matrix) {
  if (!has_token_rows(choices.lora, matrix)) return choices;
  choices.trains = [others = choices.trains, matrix](const std::string& name) {
    return name == matrix || !others || others(name);
  };
  choices.no_decay.embedding = true;
  return choices;
}

void clear_other_rows(const core::Work& work, const std::vector<std::int64_t>& token_rows,
                      core::IndexRange rows, std::int64_t width, float* drows_VD) {
  std::int64_t done = 0;  // rows of this rank
  const auto clear_until = [&](std::int64_t row) {
    if (row > done) kernels::clear(work, (row - done) * width, drows_VD + done * width);
  };
  for (const std::int64_t id : token_rows) {
    const std::int64_t row = id - rows.first;
    if (row < 0 || row >= rows.count) continue;
    clear_until(row);
    done = row + 1;
  }
  clear_until(rows.count);
}

}  // namespace fm::model

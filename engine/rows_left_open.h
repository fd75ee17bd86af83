// What a command does not say of rows.
#pragma once

#include <string>

namespace fm::engine {

// True: not said; choose_rows (engine/plan/choose_rows.h) decides it by data and model.
struct RowsLeftOpen {
  bool packing = false;
  bool document_attention = false;
  bool max_seq_len = false;
  std::string chosen = {};  // what was decided, in words
};

}  // namespace fm::engine

// How many damaged inputs a test tries.
#pragma once

namespace fm::testing {

// A fifth under a sanitizer, by which a round takes ten times as long.
constexpr int mutation_rounds(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all / 5;
#else
  return all;
#endif
}

}  // namespace fm::testing

// What every backend asks of the arguments of a verb; a BugError names the values.
#pragma once

#include <string_view>

#include "core/check.h"
#include "core/types.h"

namespace fm::comm {

inline void check_parts(core::Elements whole, core::Elements part, int size,
                        std::string_view verb) {
  FM_CHECK(whole == part * size, verb, " needs ", size, " equal parts, whole ", whole.count(),
           ", part ", part.count());
}

inline void check_dtypes(core::DType a, core::DType b, std::string_view verb) {
  FM_CHECK(a == b, verb, " from ", core::name_of(a), " to ", core::name_of(b));
}

inline void check_root(int root, int size) {
  FM_CHECK(root >= 0 && root < size, "root ", root, " in a group of ", size);
}

inline void check_peer(int peer, int rank, int size) {
  FM_CHECK(peer >= 0 && peer < size && peer != rank, "peer ", peer, " of rank ", rank,
           " in a group of ", size);
}

}  // namespace fm::comm

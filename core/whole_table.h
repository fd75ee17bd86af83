// The order of a unit's parameters where one of its matrices has flat buffers of its own.
#pragma once

#include "core/param_table.h"

namespace fm::core {

// Whether `rest`, the unit's other parameters, lies before `matrix` in a flat buffer of both, as
// ParamTable lays it out from [rest, matrix]: decayed ones first, otherwise in that order.
inline bool lies_before(const ParamTable& rest, const ParamTable& matrix) {
  return rest.decayed().count() > 0 || matrix.decayed().count() == 0;
}

}  // namespace fm::core

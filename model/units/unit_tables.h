// The parameters of a unit in two flat buffers: the trained ones and the frozen ones. Lookups
// search both tables.
#pragma once

#include "core/check.h"
#include "core/param_table.h"
#include "model/choices.h"
#include "model/unit.h"

namespace fm::model {

struct UnitTables {
  UnitTables() = default;
  UnitTables(std::vector<core::ParamEntry> all, const ModelChoices& choices);

  core::ParamTable own;     // trained
  core::ParamTable frozen;  // empty: no parameter is frozen

  const core::ParamTable* frozen_or_null() const {
    return frozen.entries().empty() ? nullptr : &frozen;
  }
};

// The offset of a parameter.
struct ParamPlace {
  std::int64_t offset = -1;  // in its flat buffer; -1: the unit has none
  bool frozen = false;

  bool there() const { return offset >= 0; }
  bool trained() const { return there() && !frozen; }
  ParamPlace behind(std::int64_t elements) const { return {offset + elements, frozen}; }
};

// The place of the parameter with this full name.
ParamPlace place_of(const UnitTables& tables, const std::string& name);

// The weight buffers of a unit, in its element type; null where they are not read.
template <class T>
struct UnitWeights {
  const T* own = nullptr;
  const T* frozen = nullptr;

  explicit UnitWeights(const Weights& weights)
      : own(static_cast<const T*>(weights.own)), frozen(static_cast<const T*>(weights.frozen)) {}
  // The parameter, or null where there is none.
  const T* at(ParamPlace place) const {
    if (!place.there()) return nullptr;
    const T* const buffer = place.frozen ? frozen : own;
    FM_CHECK(buffer != nullptr, place.frozen ? "frozen" : "trained", " weights are read at ",
             place.offset, ", and none are at hand");
    return buffer + place.offset;
  }
};

}  // namespace fm::model

// The parameters of a unit: those that are trained and those that are frozen lie in a flat buffer
// each, and who needs one finds it in either.
#pragma once

#include "core/check.h"
#include "core/param_table.h"
#include "model/choices.h"
#include "model/unit.h"

namespace fm::model {

struct UnitTables {
  UnitTables() = default;
  UnitTables(std::vector<core::ParamEntry> all, const ModelChoices& choices);

  core::ParamTable own;     // what is trained
  core::ParamTable frozen;  // empty: nothing is

  const core::ParamTable* frozen_or_null() const {
    return frozen.entries().empty() ? nullptr : &frozen;
  }
};

// Where a parameter lies.
struct ParamPlace {
  std::int64_t offset = -1;  // in its flat buffer; -1: the unit has none
  bool frozen = false;

  bool there() const { return offset >= 0; }
  bool trained() const { return there() && !frozen; }
  ParamPlace behind(std::int64_t elements) const { return {offset + elements, frozen}; }
};

// Of the parameter with this whole name.
ParamPlace place_of(const UnitTables& tables, const std::string& name);

// The buffers of a unit's weights, as its element type; null where nobody reads them.
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

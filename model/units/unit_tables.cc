#include "model/units/unit_tables.h"

#include <utility>

namespace fm::model {
namespace {

std::int64_t offset_of(const core::ParamTable& table, const std::string& name) {
  for (const core::ParamEntry& entry : table.entries()) {
    if (entry.name == name) return entry.offset.count();
  }
  return -1;
}

}  // namespace

UnitTables::UnitTables(std::vector<core::ParamEntry> all, const ModelChoices& choices) {
  std::vector<core::ParamEntry> trained;
  std::vector<core::ParamEntry> rest;
  for (core::ParamEntry& entry : all) {
    const bool trains = !choices.trains || choices.trains(entry.name);
    (trains ? trained : rest).push_back(std::move(entry));
  }
  own = core::ParamTable(std::move(trained), choices.no_decay, choices.share);
  frozen = core::ParamTable(std::move(rest), choices.no_decay, choices.share);
}

ParamPlace place_of(const UnitTables& tables, const std::string& name) {
  const std::int64_t own = offset_of(tables.own, name);
  if (own >= 0) return {own, false};
  return {offset_of(tables.frozen, name), true};
}

}  // namespace fm::model

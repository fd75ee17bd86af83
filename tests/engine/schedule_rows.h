// Every schedule of the table as parameters of a test, and a name that gtest takes.
#pragma once

#include <string>
#include <vector>

#include "pipeline/schedules/schedules.h"

namespace fm::engine {

inline std::vector<const pipeline::ScheduleRow*> every_schedule() {
  std::vector<const pipeline::ScheduleRow*> out;
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) out.push_back(&row);
  return out;
}

inline std::string test_name(const pipeline::ScheduleRow& row) {
  std::string name(row.name);
  std::erase(name, '-');
  return name;
}

}  // namespace fm::engine

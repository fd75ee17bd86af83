// Records of TensorBoard's event files (tensorflow's event.proto and summary.proto, framed as
// tensorboard/summary/writer/record_writer.py does): length, its checksum, data, its checksum.
#pragma once

#include <string>

#include "observe/monitor/monitor.h"

namespace fm::monitor {

// Times in seconds since 1970. The first record of a file:
std::string version_record(double wall_time);
// A start goes on here: TensorBoard drops points of this step and later ones, as far as they stand
// before this record.
std::string start_record(double wall_time, std::int64_t step);
std::string scalar_record(double wall_time, const Event& event);

}  // namespace fm::monitor

#include "engine/shown/trace_file.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/check.h"

namespace fm::engine {
namespace {

const char* category_of(core::TraceKind kind) {
  switch (kind) {
    case core::TraceKind::kStep: return "step";
    case core::TraceKind::kInstruction: return "instruction";
    case core::TraceKind::kPart: return "part";
    case core::TraceKind::kCollective: return "collective";
    case core::TraceKind::kKernel: return "kernel";
  }
  return "?";
}

// 1234567 -> 1234.567: no digit is lost in a long run, as in a double's six.
std::string microseconds(std::int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%s%lld.%03lld", ns < 0 ? "-" : "",
                std::abs(static_cast<long long>(ns / 1000)),
                std::abs(static_cast<long long>(ns % 1000)));
  return text;
}

// Work per nanosecond is 1e9 of it per second.
std::string rate_of(const char* argument, std::int64_t work, std::int64_t ns) {
  const std::string_view name(argument);
  if (ns <= 0 || (name != "flops" && name != "bytes")) return "";
  char text[64];
  std::snprintf(text, sizeof(text), ", \"%s\": %.4g", name == "flops" ? "GFLOP/s" : "GB/s",
                static_cast<double>(work) / static_cast<double>(ns));
  return text;
}

// `text` holds what a host or a layout is called.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    if (static_cast<unsigned char>(letter) >= 0x20) out += letter;
  }
  return out + "\"";
}

}  // namespace

std::string json_of(const core::TraceEvent& event, int rank, std::int64_t zero_ns) {
  const std::int64_t spent = event.end_ns - event.begin_ns;
  std::string out = core::concat(R"({"name": ")", event.form->name, R"(", "cat": ")",
                                 category_of(event.form->kind), R"(", "ph": "X", "pid": )", rank,
                                 R"(, "tid": 0, "ts": )", microseconds(event.begin_ns - zero_ns),
                                 R"(, "dur": )", microseconds(spent));
  std::string arguments;
  for (std::size_t at = 0; at < core::kTraceValues; ++at) {
    const char* const name = event.form->arguments[at];
    const std::int64_t value = event.values[at];
    if (name == nullptr || value == core::kNoValue) continue;
    arguments += core::concat(arguments.empty() ? "" : ", ", '"', name, "\": ", value,
                              rate_of(name, value, spent));
  }
  if (!arguments.empty()) out += ", \"args\": {" + arguments + "}";
  return out + "}";
}

std::string json_of_rank(int rank, const std::string& name) {
  const auto meta = [&](const char* what, const std::string& argument) {
    return core::concat(R"({"name": ")", what, R"(", "ph": "M", "pid": )", rank,
                        R"(, "tid": 0, "args": {)", argument, "}}");
  };
  return core::concat(meta("process_name", "\"name\": " + quoted(name)), ",\n",
                      meta("process_sort_index", core::concat("\"sort_index\": ", rank)));
}

}  // namespace fm::engine

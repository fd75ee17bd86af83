#include "cli/ending.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <new>

#include "core/check.h"
#include "core/process.h"

namespace fm::cli {
namespace {

using core::ExitCode;

constexpr int kReadMs = 1'000;  // for somebody to read the last line

std::string too_little_memory(const std::string& program) {
  return program == "fmengine-train"
             ? "memory must suffice; see --plan for what a rank needs, and use a higher ZeRO "
               "stage, "
               "more ranks or a smaller micro-batch"
             : "memory must suffice; give the process more, or less to do at once";
}

// Bytes that are not ASCII may be broken UTF-8, which the agent would refuse.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    if (byte < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", byte);
      out += code;
    } else {
      out += byte > 0x7E ? '?' : c;
    }
  }
  return out;
}

void write_error_file(const std::string& message) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  std::ofstream(path) << error_file_json(message, static_cast<long long>(std::time(nullptr)));
}

}  // namespace

std::string error_file_json(const std::string& message, long long epoch_seconds) {
  // torchrun prints "py_callstack" as the traceback, and nothing else of the message.
  const std::string text = "\"" + escaped(message) + "\"";
  return core::concat("{\"message\": {\"message\": ", text,
                      ", \"extraInfo\": {\"py_callstack\": ", text, ", \"timestamp\": \"",
                      epoch_seconds, "\"}}}");
}

int Ending::run(const std::function<int()>& body) {
  try {
    return body();
  } catch (...) {
    return fail_now();
  }
}

int Ending::fail_now() {
  try {
    throw;
  } catch (const core::UserError& error) {
    return fail(static_cast<int>(error.code()), error.what(), Said::kOnce);
  } catch (const core::Error& error) {
    return fail(static_cast<int>(error.code()), error.what(), Said::kByEverybody);
  } catch (const std::bad_alloc&) {
    return fail(static_cast<int>(ExitCode::kOutOfMemory), too_little_memory(program_),
                Said::kByEverybody);
  } catch (const std::exception& error) {
    return fail(static_cast<int>(ExitCode::kOurFault), error.what(), Said::kByEverybody);
  }
}

int Ending::end_by(const core::MachineError& error) {
  return fail(static_cast<int>(error.code()), error.what(), Said::kByEverybody);
}

void Ending::limit_end(int exit_code) {
  if (end_ms_ == 0 || limited_.exchange(true)) return;
  if (on_limit_) on_limit_(exit_code);
  core::end_process_in(end_ms_, exit_code);
}

int Ending::follow(const comm::PeerLoss& loss) {
  limit_end(loss.exit_code);
  // Code 25 may be an error of the user, found by all, or of one rank, which has said so itself.
  const bool once = loss.exit_code == static_cast<int>(ExitCode::kConfigError) ||
                    loss.exit_code == static_cast<int>(ExitCode::kDataError) ||
                    loss.exit_code == static_cast<int>(ExitCode::kOutOfMemory);
  // In the words of an error that this rank found by itself.
  const std::string line =
      once && !loss.reason.empty() ? line_of(loss.world_rank, loss.reason) : loss.message;
  const std::string said = line + place_at(loss.exit_code);
  announce(said, said, once ? Said::kOnce : Said::kByEverybody);
  return loss.exit_code;
}

std::string Ending::line_of(int world_rank, const std::string& message) const {
  const std::string who = world_rank > 0 ? core::concat("rank ", world_rank, ": ") : "";
  return program_ + ": " + who + message;
}

// "; rank 1 was in step 57, backward B2.3 (layers.1), reduce_scatter #318 of group dp[0,1], ..."
std::string Ending::place_at(int exit_code) const {
  const bool waited = exit_code == static_cast<int>(ExitCode::kPeerLost) ||
                      exit_code == static_cast<int>(ExitCode::kHang);
  const std::string place = waited && whereabouts_ ? whereabouts_() : "";
  return place.empty() ? "" : core::concat("; rank ", world_rank_, " was in ", place);
}

int Ending::fail(int exit_code, const std::string& what, Said said) {
  limit_end(exit_code);
  const std::string message = what + place_at(exit_code);
  announce(line_of(world_rank_, message), message, said);
  if (shut_down_) shut_down_(exit_code, message);
  return exit_code;
}

void Ending::announce(const std::string& line, const std::string& message, Said said) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (announced_) return;
  announced_ = true;
  if (speaks_ || said == Said::kByEverybody) {
    core::print_error_line(line, kReadMs);
  }
  write_error_file(message);
}

}  // namespace fm::cli

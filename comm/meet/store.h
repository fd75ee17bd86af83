// Where rank 0 leaves its address when a launcher brings a store along.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/deadline.h"

namespace fm::comm {

class MeetingStore {
 public:
  virtual ~MeetingStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // The value, as soon as somebody set it; nothing when the deadline passed first.
  virtual std::optional<std::string> find(const std::string& key, const Deadline& deadline) = 0;
};

struct StoreOptions {
  std::string host;
  int port = 0;
  std::string prefix;  // of every key
  int timeout_ms = 0;  // limit for reaching the server; c10d may take longer
};

// A client of the c10d TCPStore that torchrun's agent serves. Throws MachineError (14) when the
// server cannot be reached.
std::unique_ptr<MeetingStore> open_torch_store(const StoreOptions& options);

}  // namespace fm::comm

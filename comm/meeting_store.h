// Where ranks that do not know each other yet leave their addresses.
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
  bool serve = false;  // this rank hosts the store; otherwise it is a client
  std::string prefix;  // of every key, "fmengine/<restart_count>/"
  int timeout_ms = 0;  // limit for reaching the server
};

// LibTorch's c10d TCPStore, the protocol of torchrun. Throws MachineError (14) when the server
// cannot be reached, or its port is taken.
std::unique_ptr<MeetingStore> open_torch_store(const StoreOptions& options);

}  // namespace fm::comm

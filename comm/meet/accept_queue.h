// Accepted connections whose hello is not complete yet: ranks of the job, and unknown peers.
//
// An unknown connection never blocks the accept loop. It is dropped after 5 s without a complete
// hello, and the oldest one is dropped when too many are open.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/wire/socket.h"

namespace fm::comm {

// What became of the bytes that a connection has sent so far: its hello is incomplete; it was
// handled (the callback took the socket, or answered); it is that of no rank of this job.
enum class HelloStatus : std::uint8_t { kIncomplete, kHandled, kUnknown };

class AcceptQueue {
 public:
  // Called with everything that a connection has sent, `longest` bytes at most.
  using OnBytes = std::function<HelloStatus(Socket& socket, std::string_view received)>;

  // `listener` must outlive the queue.
  AcceptQueue(const Socket& listener, std::size_t longest, OnBytes on_bytes);

  // Polls the listener, the connections of the queue and `others` for a moment, or until the
  // deadline; accepts, and reads what has come. Sets the revents of `others`. Throws MachineError
  // (14) when the process may open no connection at all.
  void poll_once(std::vector<pollfd>& others, const Deadline& deadline);
  int refused() const { return refused_; }

 private:
  struct Connection {
    Socket socket;
    Deadline deadline;
    std::string received;
  };

  void accept_waiting(const Deadline& deadline);
  bool drop_oldest();
  bool done_with(Connection& connection);
  HelloStatus read_from(Connection& connection);

  const Socket& listener_;
  std::size_t longest_;
  OnBytes on_bytes_;
  std::vector<Connection> connections_;  // in order of arrival
  int refused_ = 0;
};

}  // namespace fm::comm

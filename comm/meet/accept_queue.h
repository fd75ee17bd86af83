// Accepted connections whose hello is not complete yet: ranks of the job, and unknown peers.
//
// An unknown connection never blocks the accept loop. It is dropped after 5 s without a complete
// hello, and the oldest one is dropped when too many are open, those first that do not speak as a
// rank. Where the job has a token, no more than a proof is read before it is found right.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/meet/job_secret.h"
#include "comm/wire/socket.h"

namespace fm::comm {

// What became of the bytes that a connection has sent so far: its hello is incomplete; it was
// handled (the callback took the socket, or answered); it is that of no rank of this job.
enum class HelloStatus : std::uint8_t { kIncomplete, kHandled, kUnknown };

class AcceptQueue {
 public:
  // Called with everything that a connection has sent, `longest` bytes at most.
  using OnBytes = std::function<HelloStatus(Socket& socket, std::string_view received)>;

  // `listener` and `secret`, which is null where the job has no token, must outlive the queue.
  AcceptQueue(const Socket& listener, std::size_t longest, OnBytes on_bytes,
              const JobSecret* secret = nullptr);

  // Polls the listener, the connections of the queue and `others` for a moment, or until the
  // deadline; accepts, and reads what has come. Sets the revents of `others`. Throws MachineError
  // (14) when the process may open no connection at all.
  void poll_once(std::vector<pollfd>& others, const Deadline& deadline);
  int refused() const { return refused_; }
  // Of these: ranks that have another token, or none.
  int distrusted() const { return distrusted_; }

 private:
  struct Connection {
    Socket socket;
    Deadline deadline;
    std::string received;
    Nonce nonce{};
    bool proven = false;
  };

  void accept_waiting(const Deadline& deadline);
  bool drop_oldest();
  bool challenge(Connection& connection) const;
  bool done_with(Connection& connection);
  HelloStatus read_from(Connection& connection);
  HelloStatus take_proof(Connection& connection);

  const Socket& listener_;
  std::size_t longest_;
  OnBytes on_bytes_;
  const JobSecret* secret_;
  std::vector<Connection> connections_;  // in order of arrival
  int refused_ = 0;
  int distrusted_ = 0;
};

}  // namespace fm::comm

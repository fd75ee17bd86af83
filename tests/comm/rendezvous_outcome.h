// The result of the rendezvous of one rank, and peers that are none.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>

#include "comm/meet/rendezvous.h"
#include "core/check.h"
#include "tests/comm/clock.h"

namespace fm::comm {

struct Outcome {
  Rendezvous rendezvous;
  std::string error;
  core::ExitCode code = core::ExitCode::kFinished;
};

inline Outcome outcome_of(const std::function<Rendezvous()>& meet) {
  Outcome outcome;
  try {
    outcome.rendezvous = meet();
  } catch (const core::MachineError& error) {
    outcome.error = error.what();
    outcome.code = error.code();
  }
  return outcome;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Socket unknown_peer_at(const Endpoint& place, const std::string& says) {
  Socket socket = connect_once(place, Deadline(kWatchdogMs));
  EXPECT_TRUE(socket.open());
  send_fully(socket, std::as_bytes(std::span(says)), Deadline(kWatchdogMs));
  return socket;
}

// Everything that the peer sent until it closed.
inline std::string all_from(const Socket& socket) {
  std::string said;
  const Deadline deadline(kWatchdogMs);
  for (std::byte byte{}; receive_fully(socket, std::span(&byte, 1), deadline);) {
    said += static_cast<char>(byte);
  }
  EXPECT_FALSE(deadline.passed()) << "the connection stays open";
  return said;
}

}  // namespace fm::comm

// Collective decisions: every rank gets the same answer, so no rank waits for a peer that gave up.
// Built from the verbs of Communicator only. All functions but attempt() are collective.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/check.h"

namespace fm::comm {

// Runs `body` and returns the message of its error, or "". A BugError is not caught.
template <class Body>
std::string attempt(const Body& body) {
  try {
    body();
  } catch (const core::BugError&) {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// "" when no rank has a problem, else the problem of the lowest such rank ("rank 2: ...").
std::string first_problem(Communicator& world, const std::string& mine);
// The text of rank 0, on every rank.
std::string text_of_rank0(Communicator& world, const std::string& mine);
// The texts of all ranks, of any lengths, by rank; on every rank.
std::vector<std::string> gather_texts(Communicator& world, const std::string& mine);
// One number per rank, on every rank.
std::vector<std::int64_t> gather_numbers(Communicator& world, std::int64_t mine);

}  // namespace fm::comm

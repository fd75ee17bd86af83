// The ranks of one host: started, watched and ended together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/children.h"

namespace fm::launch {

// How children are told to end.
struct Orders {
  std::function<void(int child)> stop;  // save and end
  std::function<void(int child)> end;   // end now; SIGKILL follows after grace_ms
  int grace_ms = 5'000;
  int patience_ms = 2'000;  // how long one that returned 20 waits for the end that caused it
  std::function<bool()> failed = nullptr;  // whether something failed that is no child
  std::string stop_file = {};              // its existence means what SIGTERM means
};

struct Outcome {
  int code = 0;
  int child = -1;      // the first to fail; -1: none did, or who gave the orders was lost
  bool asked = false;  // a signal came, or an order to stop
  bool lost = false;   // who gives orders through the control file has gone
};

// Until no child lives. The first failure ends all; one that returned 20, because of another, does
// so after patience_ms. Which was first: before those that returned 20 comes one that a signal
// ended or that returned another code; of what ended after it was told to, codes of fmengine's own
// count. The first SIGTERM, SIGINT, SIGHUP or "stop" through the control file asks the children to
// save and end, as does one that returns 75; another signal after 5 s, or a second SIGINT, kills.
Outcome oversee(core::Children& children, const Orders& orders);

struct AgentJob {
  std::vector<std::string> words = {};      // a rank's program and its arguments
  std::vector<std::string> variables = {};  // NAME=value; they win over those of this process
  std::string folder = {};                  // working folder; "": this one
  int node = 0;
  int nodes = 1;
  int ranks = 1;       // of this node
  int first_rank = 0;  // of this node
  int world_size = 1;
  std::string slots = {};        // devices of this node's ranks, "0,2"; "": all
  std::string master_addr = {};  // "": 127.0.0.1
  int master_port = 0;           // 0: one that nobody else has; for one node
  std::string log_dir = {};      // "": lines of ranks pass through
  std::string token = {};        // of the job; "": a new one
  bool token_in_file = false;    // ranks read it by FME_JOB_TOKEN_FILE
  std::string restart = "0";
  bool bind_cores = false;  // a part of the cores of this host for each rank
};

// What a rank finds in its environment: that of this process without what belongs to other engines'
// ports, the job's variables, then RANK, WORLD_SIZE and the like.
std::vector<std::string> variables_of(const AgentJob& job, int local_rank);

// 32 bytes of the system's random source in hexadecimal digits.
std::string new_token();

// Who an agent serves: a user at a terminal, or a launcher on another host.
struct Service {
  bool for_launcher = false;  // reports are records (launch/records.h), orders come by `control`
  int control = -1;
  std::string stop_file = {};
};

// Starts the ranks, returns their exit code (docs/launching.md, "What comes back").
int run_ranks(AgentJob job, const Service& service = {});

}  // namespace fm::launch

// How peers in shared memory wake a rank that sleeps.
#pragma once

namespace fm::comm {

// listen() says that this rank is about to sleep: from then on every change of a peer rings. What
// changed before is found by looking once more between listen() and sleep(), so no ring is missed.
//
// Thread:   the rank's thread.
// Lifetime: outlived by the memory it lies in.
class Bell {
 public:
  virtual ~Bell() = default;
  virtual void listen() = 0;
  virtual void sleep(int limit_ms) = 0;  // until rung since listen(), or the limit
  virtual void stop_listening() = 0;
  virtual bool may_spin() const = 0;  // every rank of the host has a core to itself
};

}  // namespace fm::comm

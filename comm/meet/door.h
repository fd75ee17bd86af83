// Who stands at a listener and has not said yet who he is: ranks of the job, and strangers.
//
// A stranger holds nobody up: he is heard whenever he speaks, leaves when he has said nothing whole
// for five seconds, and the one who stands there longest leaves when too many have come.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/wire/socket.h"

namespace fm::comm {

// What the judge says of a visitor: he has not said all of it; he is known (the judge has taken his
// socket, or answered); he is a stranger.
enum class Verdict : std::uint8_t { kMore, kKnown, kStranger };

class Door {
 public:
  // Called with everything that a visitor has said, `longest` bytes at most.
  using Judge = std::function<Verdict(Socket& visitor, std::string_view said)>;

  // `listener` must outlive the door.
  Door(const Socket& listener, std::size_t longest, Judge judge);

  // Waits for news of the visitors or of `others`, for a moment or until the deadline, and hears
  // who has come. The revents of `others` are set. Throws MachineError (14) when the process may
  // open no connection at all.
  void attend(std::vector<pollfd>& others, const Deadline& deadline);
  int refused() const { return refused_; }

 private:
  struct Visitor {
    Socket socket;
    Deadline deadline;
    std::string said;
  };

  void accept_all_that_wait(const Deadline& deadline);
  bool make_room();
  bool done_with(Visitor& visitor);
  Verdict hear(Visitor& visitor);

  const Socket& listener_;
  std::size_t longest_;
  Judge judge_;
  std::vector<Visitor> visitors_;  // the one who came first stands first
  int refused_ = 0;
};

}  // namespace fm::comm

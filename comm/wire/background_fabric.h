// Messages that move while the rank computes: a thread beside it that takes a turn on the fabric
// now and then. It sleeps unless large messages are under way and the rank does not wait for them
// itself, so ranks that share memory never wake it.
#pragma once

#include <memory>

#include "comm/wire/fabric.h"

namespace fm::comm {

// `inner` may be called by any thread, one at a time. An error that the thread meets is thrown by
// the rank's next call.
std::unique_ptr<Fabric> make_background_fabric(std::unique_ptr<Fabric> inner);

}  // namespace fm::comm

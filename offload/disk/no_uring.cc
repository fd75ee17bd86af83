// Where liburing is not there at build time.
#include "offload/disk/disk_engine.h"

namespace fm::offload {

EngineOrWhy uring_engine(std::size_t /*slots*/) {
  return {.engine = nullptr, .why = "built without liburing"};
}

}  // namespace fm::offload

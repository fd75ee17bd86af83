#include "comm/nccl/nccl_library.h"

#include <cstdlib>

#include "comm/nccl/nccl.h"
#include "core/check.h"

namespace fm::comm {
namespace {

constexpr int kOldest = NCCL_VERSION(2, 27, 0);  // the first with packages for CUDA 13

std::string version_text(int version) {
  return core::concat(version / 10'000, ".", version / 100 % 100, ".", version % 100);
}

template <class Function>
void set(Function& function, const FindFunction& find, const char* name) {
  function = reinterpret_cast<Function>(find(name));
  FM_USER_CHECK(function != nullptr,
                "libnccl.so.2 must have all functions that fmengine calls; "
                "install NCCL ",
                version_text(kOldest), " or newer (missing ", name, ")");
}

}  // namespace

std::shared_ptr<const NcclLibrary> open_nccl(const FindFunction& find) {
  auto library = std::make_shared<NcclLibrary>();
  set(library->get_version, find, "ncclGetVersion");
  FM_USER_CHECK(
      library->get_version(&library->version) == ncclSuccess && library->version >= kOldest,
      "libnccl.so.2 must be NCCL ", version_text(kOldest),
      " or newer; install it, or name its folder in FME_CUDA_LIBS (found ",
      version_text(library->version), ")");
  set(library->get_unique_id, find, "ncclGetUniqueId");
  set(library->get_error_string, find, "ncclGetErrorString");
  set(library->get_last_error, find, "ncclGetLastError");
  set(library->comm_init_rank_config, find, "ncclCommInitRankConfig");
  set(library->comm_get_async_error, find, "ncclCommGetAsyncError");
  set(library->comm_abort, find, "ncclCommAbort");
  set(library->comm_destroy, find, "ncclCommDestroy");
  set(library->group_start, find, "ncclGroupStart");
  set(library->group_end, find, "ncclGroupEnd");
  set(library->all_reduce, find, "ncclAllReduce");
  set(library->reduce_scatter, find, "ncclReduceScatter");
  set(library->all_gather, find, "ncclAllGather");
  set(library->broadcast, find, "ncclBroadcast");
  set(library->send, find, "ncclSend");
  set(library->receive, find, "ncclRecv");
  setenv("NCCL_NVLS_ENABLE", "0", 0);
  // Connections and their memory are there before the first step, not in it.
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  // A file of the host may say 1: then the start of a group would have no limit.
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  return library;
}

std::string name_of(const NcclLibrary& library) { return "NCCL " + version_text(library.version); }

}  // namespace fm::comm

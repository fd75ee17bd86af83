#include "device/cuda/cudnn_faults.h"

#include "core/check.h"

namespace fm::device::cuda {
namespace {

// Versions before `first_good`, and what they do wrong. That 9.14.0 gets windows wrong that are not
// causal is none of ours.
struct Fault {
  std::size_t first_good;
  bool odd_rows_only;  // whose tokens are no multiple of 128
  const char* what;
};
// pytorch/pytorch and cudnn-frontend name them; plans without a device, which the cache of plans
// needs, have been tried from 9.11 on.
constexpr Fault kFaults[] = {
    {91100, false, "plans cannot be kept"},
    {91501, true, "rows of other than a multiple of 128 tokens are wrong"},
};

}  // namespace

std::string fault_of(std::size_t version, const AttentionPiece& piece) {
  for (const Fault& fault : kFaults) {
    if (version >= fault.first_good) continue;
    if (fault.odd_rows_only && piece.tokens % 128 == 0) continue;
    return core::concat("before ", fault.first_good / 10000, '.', fault.first_good / 100 % 100, '.',
                        fault.first_good % 100, ' ', fault.what);
  }
  return "";
}

}  // namespace fm::device::cuda

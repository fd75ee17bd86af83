#include "engine/state/arithmetic.h"

#include <algorithm>
#include <vector>

#include "comm/agree.h"
#include "core/check.h"
#include "kernels/gemm/gemm.h"
#include "model/attention/attention.h"

namespace fm::engine {
namespace {

std::vector<Arithmetic> gather(const Arithmetic& mine, comm::Communicator& world) {
  std::vector<Arithmetic> all;
  for (const std::string& text :
       comm::gather_texts(world, core::concat(mine.threads, " ", mine.libraries))) {
    all.push_back({.libraries = text.substr(text.find(' ') + 1), .threads = std::stoi(text)});
  }
  return all;
}

}  // namespace

Arithmetic arithmetic_here(core::DType element) {
  const bool fp32 = element == core::DType::kF32;
  const std::string compute = fp32 ? "" : core::concat(core::name_of(element), " compute, ");
  const std::string products = compute + kernels::gemm_library(element);
  return {.libraries = core::concat(products, ", attention ", model::attention_library()),
          .threads = kernels::kernel_threads()};
}

std::string text_of(const Arithmetic& arithmetic) {
  return core::concat(arithmetic.libraries, ", ", arithmetic.threads,
                      arithmetic.threads == 1 ? " thread" : " threads", " per rank");
}

std::string check_same_arithmetic(const Arithmetic& mine, comm::Communicator& world) {
  const std::vector<Arithmetic> all = gather(mine, world);
  const auto other_libraries = std::ranges::find_if(
      all, [&](const Arithmetic& one) { return one.libraries != all[0].libraries; });
  FM_USER_CHECK(other_libraries == all.end(),
                "all ranks must compute with the same libraries and instruction set; start every "
                "rank with the same build, and on different CPUs set FME_GEMM=onednn and "
                "ONEDNN_MAX_CPU_ISA to what all of them have (rank ",
                other_libraries - all.begin(), ": ", other_libraries->libraries,
                "; rank 0: ", all[0].libraries, ")");
  const auto other_threads = std::ranges::find_if(
      all, [&](const Arithmetic& one) { return one.threads != all[0].threads; });
  if (other_threads == all.end()) return "";
  return core::concat(
      "ranks compute with different numbers of threads, so another layout agrees to "
      "rounding, not bit for bit; set OMP_NUM_THREADS for all of them alike (rank ",
      other_threads - all.begin(), ": ", text_of(*other_threads), "; rank 0: ", text_of(all[0]),
      ")");
}

}  // namespace fm::engine

#include "cli/report.h"

#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/check.h"
#include "core/text.h"
#include "kernels/gemm.h"

namespace fm::cli {
namespace {

std::string read_all(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

int online_cores() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

std::string affinity() {
  const std::vector<int> cores = allowed_cores();
  return core::concat("cores ", ranges(cores), " (", cores.size(), " of ", online_cores(), ")");
}

std::string threads() {
  return core::concat(kernels::kernel_threads(), " per rank (OMP_NUM_THREADS sets it)");
}

// May be asked before MPI_Init.
std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

}  // namespace

std::vector<std::string> report_lines() {
  const std::string cpuinfo = read_all("/proc/cpuinfo");
  return {"CPU           " + cpu_model(cpuinfo),
          "instructions  " + instruction_sets(cpuinfo),
          "GEMM          " + kernels::gemm_library(),
          "threads       " + threads(),
          "affinity      " + affinity(),
          "memory        " + memory_line(read_all("/proc/meminfo")),
          "MPI           " + mpi_version(),
          std::string("LibTorch      ") + FM_TORCH_VERSION};
}

int choose_threads(int local_size) {
  if (const char* omp = std::getenv("OMP_NUM_THREADS")) return std::max(1, std::atoi(omp));
  const int allowed = std::max(1, static_cast<int>(allowed_cores().size()));
  // Few cores of many: the launcher bound them to this rank alone.
  const bool own_cores = allowed <= online_cores() / local_size;
  return own_cores ? allowed : std::max(1, allowed / local_size);
}

}  // namespace fm::cli

// Which launcher started this process: torchrun's variables, OpenMPI's, or none.
#include <charconv>
#include <cstdlib>

#include "comm/meet/world.h"
#include "core/check.h"

namespace fm::comm {
namespace {

int number_in(const Environment& environment, const std::string& name) {
  const std::string text = environment(name).value_or("");
  int value = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  FM_USER_CHECK(parsed.ec == std::errc() && parsed.ptr == end && value >= 0, name,
                " must be a whole number from 0 on; set it, or unset all launcher variables (",
                name, "=\"", text, "\")");
  return value;
}

// The first of `names` that is set, or `otherwise`.
int number_or(const Environment& environment, std::initializer_list<const char*> names,
              int otherwise) {
  for (const char* const name : names) {
    if (environment(name)) return number_in(environment, name);
  }
  return otherwise;
}

void check_ranks(const LaunchInfo& launch, const char* rank_name, const char* size_name) {
  FM_USER_CHECK(launch.world_size >= 1 && launch.world_rank < launch.world_size, rank_name,
                " must be below ", size_name, "; start ranks 0 to ", size_name, " - 1 (", rank_name,
                "=", launch.world_rank, ", ", size_name, "=", launch.world_size, ")");
  FM_USER_CHECK(launch.local_size >= 1 && launch.local_rank < launch.local_size,
                "the local rank must be below the local world size; set both or neither "
                "(local rank ",
                launch.local_rank, ", local world size ", launch.local_size, ")");
}

LaunchInfo from_variables(const Environment& environment) {
  const bool elastic = environment("TORCHELASTIC_RUN_ID").has_value();
  LaunchInfo launch;
  launch.launcher = Launcher::kEnvironment;
  launch.elastic = elastic;
  launch.world_rank = number_in(environment, "RANK");
  launch.world_size = number_in(environment, "WORLD_SIZE");
  launch.local_rank = number_or(environment, {"LOCAL_RANK"}, 0);
  // torchrun sets LOCAL_WORLD_SIZE, the DeepSpeed launcher LOCAL_SIZE.
  launch.local_size =
      number_or(environment, {"LOCAL_WORLD_SIZE", "LOCAL_SIZE"}, launch.local_rank + 1);
  check_ranks(launch, "RANK", "WORLD_SIZE");
  launch.master_addr = environment("MASTER_ADDR").value_or("");
  FM_USER_CHECK(!launch.master_addr.empty(),
                "MASTER_ADDR must name the host of rank 0; set it on every rank (RANK=",
                launch.world_rank, ", WORLD_SIZE=", launch.world_size, ")");
  launch.master_port = number_in(environment, "MASTER_PORT");
  FM_USER_CHECK(launch.master_port >= 1 && launch.master_port <= 65535,
                "MASTER_PORT must be a port from 1 to 65535; choose a free one (MASTER_PORT=",
                launch.master_port, ")");
  launch.agent_store = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.restart_count = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  launch.run_id = environment("TORCHELASTIC_RUN_ID").value_or("");
  launch.job_id = environment("FME_JOB_ID").value_or("");
  launch.host_label = environment("FME_HOST").value_or("");
  launch.decision =
      core::concat("rank ", launch.world_rank, " of ", launch.world_size, ", from ",
                   elastic ? "torchrun (TORCHELASTIC_RUN_ID is set)"
                           : "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
                   ", meeting at ", launch.master_addr, ":", launch.master_port,
                   launch.agent_store ? " (store of the agent)" : " (port of rank 0)");
  return launch;
}

// Whether a variable holds a number of several processes.
bool many(const Environment& environment, const char* name) {
  return !environment(name).value_or("").empty() && number_in(environment, name) > 1;
}

LaunchInfo from_openmpi(const Environment& environment) {
  LaunchInfo launch;
  launch.launcher = Launcher::kOpenMpi;
  launch.world_rank = number_in(environment, "OMPI_COMM_WORLD_RANK");
  launch.world_size = number_in(environment, "OMPI_COMM_WORLD_SIZE");
  launch.local_rank = number_or(environment, {"OMPI_COMM_WORLD_LOCAL_RANK"}, 0);
  launch.local_size = number_or(environment, {"OMPI_COMM_WORLD_LOCAL_SIZE"}, launch.local_rank + 1);
  launch.restart_count = "0";
  launch.host_label = environment("FME_HOST").value_or("");
  check_ranks(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  FM_USER_CHECK(launch.world_size > 1 || !many(environment, "WORLD_SIZE"),
                "mpirun must start as many processes as WORLD_SIZE says; pass it -np, or unset "
                "WORLD_SIZE to run alone (WORLD_SIZE=",
                environment("WORLD_SIZE").value_or(""), ", mpirun started 1)");
  for (const char* const name : {"RANK", "WORLD_SIZE"}) {
    const auto stale = environment(name);
    const int real = name[0] == 'R' ? launch.world_rank : launch.world_size;
    if (!stale || *stale == std::to_string(real)) continue;
    launch.warnings.push_back(core::concat("under mpirun ", name,
                                           " of the environment is ignored; "
                                           "unset it (",
                                           name, "=", *stale, ", OpenMPI says ", real, ")"));
  }
  launch.decision = core::concat("rank ", launch.world_rank, " of ", launch.world_size,
                                 ", from OpenMPI (OMPI_COMM_WORLD_SIZE is set)");
  return launch;
}

// Without these refusals every process would silently be a world of its own.
void refuse_what_looks_like_many(const Environment& environment) {
  const auto text = [&environment](const char* name) {
    return environment(name).value_or("unset");
  };
  const std::string rank = environment("RANK").value_or("");
  const bool alone = rank == "0" && environment("WORLD_SIZE") == "1";
  if (!rank.empty()) number_in(environment, "RANK");
  FM_USER_CHECK(rank.empty() || alone,
                "RANK needs WORLD_SIZE, MASTER_ADDR and MASTER_PORT beside it; set all four, or "
                "unset RANK and leave out --rank to run alone (RANK=",
                rank, ", WORLD_SIZE=", text("WORLD_SIZE"), ", MASTER_ADDR=", text("MASTER_ADDR"),
                ", MASTER_PORT=", text("MASTER_PORT"), ")");
  // A bare sbatch shell has SLURM_NTASKS too, but no SLURM_STEP_ID.
  const bool slurm = environment("SLURM_STEP_ID") && environment("SLURM_PROCID") &&
                     many(environment, "SLURM_NTASKS");
  FM_USER_CHECK(!slurm && !many(environment, "PMI_SIZE"),
                slurm ? "srun" : "an MPI other than OpenMPI",
                " is not supported yet; start with OpenMPI's mpirun, with torchrun, or set RANK, "
                "WORLD_SIZE, MASTER_ADDR and MASTER_PORT on every rank (SLURM_NTASKS=",
                text("SLURM_NTASKS"), ", PMI_SIZE=", text("PMI_SIZE"), ")");
  FM_USER_CHECK(!many(environment, "WORLD_SIZE"),
                "WORLD_SIZE above 1 needs RANK, MASTER_ADDR and MASTER_PORT beside it; start with "
                "mpirun or torchrun, set all four, or leave out WORLD_SIZE and --world_size to run "
                "alone (WORLD_SIZE=",
                text("WORLD_SIZE"), ")");
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

LaunchInfo detect_launch(const Environment& environment) {
  const auto set = [&environment](const char* name) { return environment(name).has_value(); };
  if (set("TORCHELASTIC_RUN_ID")) return from_variables(environment);
  // Before RANK and the like: a leftover RANK may be right on one rank by accident, and the ranks
  // of one job would then choose differently.
  if (set("OMPI_COMM_WORLD_SIZE")) return from_openmpi(environment);
  if (set("RANK") && set("WORLD_SIZE") && set("MASTER_ADDR") && set("MASTER_PORT")) {
    return from_variables(environment);
  }
  refuse_what_looks_like_many(environment);
  LaunchInfo alone;
  alone.restart_count = "0";
  alone.decision = "started alone, not by mpirun or torchrun";
  return alone;
}

int rank_if_known(const Environment& environment) {
  try {
    return detect_launch(environment).world_rank;
  } catch (const core::UserError&) {
    return 0;
  }
}

}  // namespace fm::comm

#include "launch/engines.h"

#include <unistd.h>

#include <charconv>

#include "core/check.h"
#include "core/text.h"
#include "launch/slurm_nodes.h"

namespace fm::launch {
namespace {

using comm::Launcher;
using comm::LaunchInfo;
using core::Environment;

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

// A port of our own, where MASTER_PORT belongs to somebody else; "" when there is none.
std::string own_port_name(const Environment& environment) {
  for (const char* const name : {"FME_MASTER_PORT", "FMENGINE_MASTER_PORT"}) {
    if (environment(name)) return name;
  }
  return "";
}

int port_in(const Environment& environment, const std::string& usual = "MASTER_PORT") {
  const std::string own = own_port_name(environment);
  const std::string name = own.empty() ? usual : own;
  const int port = number_in(environment, name);
  FM_USER_CHECK(port >= 1 && port <= 65535, name,
                " must be a port from 1 to 65535; choose a free one (", name, "=", port, ")");
  return port;
}

bool names_a_port(const Environment& environment) {
  return environment("MASTER_PORT") || !own_port_name(environment).empty();
}

std::string meeting(const LaunchInfo& launch) {
  return core::concat(", meeting at ", launch.master_addr, ":", launch.master_port,
                      launch.agent_store ? " (store of the agent)" : " (port of rank 0)");
}

// RANK and the like, by whomever they were set. `who` stands in the decision.
LaunchInfo from_variables(const Environment& environment, const std::string& who) {
  LaunchInfo launch;
  launch.launcher = Launcher::kEnvironment;
  launch.world_rank = number_in(environment, "RANK");
  launch.world_size = number_in(environment, "WORLD_SIZE");
  launch.says_local_rank = environment("LOCAL_RANK").has_value();
  launch.local_rank = number_or(environment, {"LOCAL_RANK"}, 0);
  // torchrun sets LOCAL_WORLD_SIZE, the DeepSpeed launcher LOCAL_SIZE.
  launch.local_size =
      number_or(environment, {"LOCAL_WORLD_SIZE", "LOCAL_SIZE"}, launch.local_rank + 1);
  check_ranks(launch, "RANK", "WORLD_SIZE");
  launch.master_addr = environment("MASTER_ADDR").value_or("");
  FM_USER_CHECK(!launch.master_addr.empty(),
                "MASTER_ADDR must name the host of rank 0; set it on every rank (RANK=",
                launch.world_rank, ", WORLD_SIZE=", launch.world_size, ")");
  launch.master_port = port_in(environment);
  launch.restart_count = environment("FME_RESTART_COUNT").value_or("0");
  launch.job_id = environment("FME_JOB_ID").value_or("");
  launch.decision = "from " + who + meeting(launch);
  return launch;
}

LaunchInfo from_torchrun(const Environment& environment) {
  LaunchInfo launch = from_variables(environment, "");
  launch.elastic = true;
  // At a port of our own nobody's store listens.
  launch.agent_store =
      environment("TORCHELASTIC_USE_AGENT_STORE") == "True" && own_port_name(environment).empty();
  launch.restart_count = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
  launch.run_id = environment("TORCHELASTIC_RUN_ID").value_or("");
  launch.decision = "from torchrun (TORCHELASTIC_RUN_ID is set)" + meeting(launch);
  return launch;
}

LaunchInfo from_run(const Environment& environment) {
  return from_variables(environment, "fmengine run (FME_AGENT is set)");
}

LaunchInfo from_hand(const Environment& environment) {
  return from_variables(environment, "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

// A worker of Ray Train, or a program that it starts: Python's process group has MASTER_PORT.
LaunchInfo from_ray(const Environment& environment) {
  LaunchInfo launch = from_variables(environment, "");
  if (own_port_name(environment).empty()) {
    FM_USER_CHECK(launch.master_port < 65535,
                  "under Ray Train ranks meet at MASTER_PORT + 1; set FME_MASTER_PORT to a free "
                  "port (MASTER_PORT=",
                  launch.master_port, ")");
    ++launch.master_port;
  }
  launch.decision = "from Ray Train (NODE_RANK and RAY_JOB_ID are set)" + meeting(launch);
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
  launch.decision = "from OpenMPI (OMPI_COMM_WORLD_SIZE is set)";
  return launch;
}

// A step of srun, with any --mpi: tasks of it are ranks. A bare sbatch shell has no SLURM_STEP_ID.
// Where Hydra (MPICH, Intel MPI) starts its proxies by srun, tasks are proxies and PMI has the
// ranks.
bool is_slurm_step(const Environment& environment) {
  const int tasks = number_or(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1);
  return environment("SLURM_STEP_ID") && environment("SLURM_PROCID") && tasks > 1 &&
         number_or(environment, {"PMI_SIZE"}, tasks) == tasks;
}

// Below the ports that systems give away by themselves (32768 on), another one for each step.
int slurm_port(const Environment& environment) {
  constexpr int kFirst = 12'000;
  constexpr int kPorts = 20'000;
  const std::int64_t job = number_or(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}, 0);
  return kFirst + static_cast<int>((7 * job + number_in(environment, "SLURM_STEP_ID")) % kPorts);
}

// The tasks of this node, by the list of all nodes.
int slurm_local_size(const Environment& environment, int local_rank) {
  for (const char* const name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const std::string list = environment(name).value_or("");
    if (list.empty()) continue;
    const std::vector<int> counts = slurm_counts(list);
    const auto node = static_cast<std::size_t>(number_or(environment, {"SLURM_NODEID"}, 0));
    if (node < counts.size()) return counts[node];
  }
  return local_rank + 1;
}

LaunchInfo from_slurm(const Environment& environment) {
  LaunchInfo launch;
  launch.launcher = Launcher::kEnvironment;
  launch.world_rank = number_in(environment, "SLURM_PROCID");
  launch.world_size = number_or(environment, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1);
  launch.local_rank = number_or(environment, {"SLURM_LOCALID"}, 0);
  launch.local_size = slurm_local_size(environment, launch.local_rank);
  check_ranks(launch, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  const std::string hosts =
      environment("SLURM_STEP_NODELIST").value_or(environment("SLURM_JOB_NODELIST").value_or(""));
  launch.master_addr = environment("MASTER_ADDR").value_or("");
  if (launch.master_addr.empty()) launch.master_addr = slurm_hosts(hosts).front();
  launch.master_port = names_a_port(environment) ? port_in(environment) : slurm_port(environment);
  launch.restart_count = environment("SLURM_RESTART_COUNT").value_or("0");
  const std::string step = core::concat(environment("SLURM_JOB_ID").value_or("?"), ".",
                                        environment("SLURM_STEP_ID").value_or("?"));
  launch.job_id = environment("FME_JOB_ID").value_or("slurm " + step);
  launch.decision =
      core::concat("from srun (SLURM_STEP_ID is set, step ", step, ")", meeting(launch));
  return launch;
}

// The variables of an MPI whose ranks we connect by tcp.
struct MpiNames {
  const char* mpi;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// They tell of no host to meet at, so ranks of one host meet at a port that follows from the
// process that started them all.
LaunchInfo from_mpi(const Environment& environment, const MpiNames& names) {
  LaunchInfo launch;
  launch.launcher = Launcher::kEnvironment;
  launch.world_rank = number_in(environment, names.rank);
  launch.world_size = number_in(environment, names.size);
  launch.says_local_rank = environment(names.local_rank).has_value();
  launch.local_rank = number_or(environment, {names.local_rank}, 0);
  launch.local_size = number_or(environment, {names.local_size}, launch.local_rank + 1);
  check_ranks(launch, names.rank, names.size);
  const bool given = environment("MASTER_ADDR") && names_a_port(environment);
  FM_USER_CHECK(given || launch.local_size == launch.world_size,
                "under an MPI other than OpenMPI, ranks of several hosts need MASTER_ADDR and "
                "MASTER_PORT, of the host of rank 0; pass both with -genv (",
                names.size, "=", launch.world_size, ", ", names.local_size, "=", launch.local_size,
                ")");
  constexpr int kFirst = 12'000;
  constexpr int kPorts = 20'000;
  launch.master_addr = given ? *environment("MASTER_ADDR") : "127.0.0.1";
  launch.master_port = given ? port_in(environment) : kFirst + static_cast<int>(getppid()) % kPorts;
  launch.restart_count = "0";
  launch.job_id = environment("FME_JOB_ID").value_or("");
  launch.decision = core::concat("from ", names.mpi, " (", names.size, " is set)", meeting(launch));
  return launch;
}

LaunchInfo from_mvapich(const Environment& environment) {
  return from_mpi(environment, {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
                                "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"});
}

// MPICH's mpiexec and Intel MPI's mpirun.
LaunchInfo from_pmi(const Environment& environment) {
  return from_mpi(environment, {"an MPI other than OpenMPI", "PMI_RANK", "PMI_SIZE",
                                "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
}

// Kubeflow's variables are torchrun's flags: they describe this node, not a rank.
bool is_pet_node(const Environment& environment) {
  return many(environment, "PET_NNODES") || many(environment, "PET_NPROC_PER_NODE");
}

LaunchInfo from_pet(const Environment& environment) {
  const std::string per_node = environment("PET_NPROC_PER_NODE").value_or("1");
  FM_USER_CHECK(per_node == "1",
                "PET_NPROC_PER_NODE is for a program that starts ranks; start this one by fmengine "
                "run, or ask for one process per node (PET_NPROC_PER_NODE=",
                per_node, ")");
  LaunchInfo launch;
  launch.launcher = Launcher::kEnvironment;
  launch.world_rank = number_in(environment, "PET_NODE_RANK");
  launch.world_size = number_in(environment, "PET_NNODES");
  check_ranks(launch, "PET_NODE_RANK", "PET_NNODES");
  launch.master_addr = environment("PET_MASTER_ADDR").value_or("");
  FM_USER_CHECK(!launch.master_addr.empty(),
                "PET_MASTER_ADDR must name the host of node 0; set it on every node "
                "(PET_NODE_RANK=",
                launch.world_rank, ", PET_NNODES=", launch.world_size, ")");
  const bool own = !own_port_name(environment).empty();
  launch.master_port =
      own || environment("PET_MASTER_PORT") ? port_in(environment, "PET_MASTER_PORT") : 29500;
  launch.restart_count = "0";
  launch.job_id = environment("FME_JOB_ID").value_or("");
  launch.decision = core::concat("from PET_NNODES, one rank per node", meeting(launch));
  return launch;
}

bool has_all_four(const Environment& environment) {
  return environment("RANK") && environment("WORLD_SIZE") && environment("MASTER_ADDR") &&
         environment("MASTER_PORT");
}

bool is_ray_worker(const Environment& environment) {
  return has_all_four(environment) && environment("NODE_RANK") && environment("RAY_JOB_ID");
}

// The first row whose variables are there reads them. torchrun comes first, as another engine may
// have started it. OpenMPI stands before RANK and the like: a leftover RANK may be right on one
// rank by accident, and the ranks of one job would then choose differently. An agent of ours takes
// both engines' variables from its ranks (variables_of), so a rank that has them was started by
// them below an agent. Slurm stands behind, as its variables are in every shell of a job.
struct Engine {
  const char* name;
  const char* variables;  // that show it
  bool (*shows)(const Environment&);
  LaunchInfo (*read)(const Environment&);
};
constexpr Engine kEngines[] = {
    {"torchrun", "TORCHELASTIC_RUN_ID RANK WORLD_SIZE MASTER_ADDR MASTER_PORT",
     [](const Environment& e) { return e("TORCHELASTIC_RUN_ID").has_value(); }, from_torchrun},
    {"OpenMPI", "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE",
     [](const Environment& e) { return e("OMPI_COMM_WORLD_SIZE").has_value(); }, from_openmpi},
    {"fmengine run", "FME_AGENT RANK WORLD_SIZE MASTER_ADDR MASTER_PORT",
     [](const Environment& e) { return e("FME_AGENT") && has_all_four(e); }, from_run},
    {"Ray Train", "RAY_JOB_ID NODE_RANK RANK WORLD_SIZE MASTER_ADDR MASTER_PORT", is_ray_worker,
     from_ray},
    {"by hand", "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT", has_all_four, from_hand},
    {"Slurm", "SLURM_STEP_ID SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_NTASKS SLURM_STEP_NODELIST",
     is_slurm_step, from_slurm},
    {"MVAPICH", "MV2_COMM_WORLD_RANK MV2_COMM_WORLD_SIZE",
     [](const Environment& e) { return many(e, "MV2_COMM_WORLD_SIZE"); }, from_mvapich},
    {"PMI", "PMI_RANK PMI_SIZE", [](const Environment& e) { return many(e, "PMI_SIZE"); },
     from_pmi},
    {"Kubeflow", "PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE PET_MASTER_ADDR PET_MASTER_PORT",
     is_pet_node, from_pet}};

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
  FM_USER_CHECK(!many(environment, "WORLD_SIZE"),
                "WORLD_SIZE above 1 needs RANK, MASTER_ADDR and MASTER_PORT beside it; start with "
                "mpirun, torchrun or srun, set all four, or leave out WORLD_SIZE and --world_size "
                "to run alone (WORLD_SIZE=",
                text("WORLD_SIZE"), ")");
  FM_USER_CHECK(environment("PMIX_RANK").value_or("0") == "0" || environment("SLURM_STEP_ID"),
                "ranks of PMIx need an engine that tells how many there are; start with mpirun or "
                "srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (PMIX_RANK=",
                text("PMIX_RANK"), ")");
}

}  // namespace

comm::LaunchInfo detect_launch(const core::Environment& environment) {
  for (const Engine& engine : kEngines) {
    if (!engine.shows(environment)) continue;
    LaunchInfo launch = engine.read(environment);
    launch.engine = engine.name;
    for (const std::string& name : core::split(engine.variables, ' ')) {
      if (const auto value = environment(name)) launch.shown_by.push_back(name + "=" + *value);
    }
    launch.host_label = environment("FME_HOST").value_or("");
    launch.decision =
        core::concat("rank ", launch.world_rank, " of ", launch.world_size, ", ", launch.decision);
    return launch;
  }
  refuse_what_looks_like_many(environment);
  LaunchInfo alone;
  alone.restart_count = "0";
  alone.decision = "started alone, by no launcher";
  return alone;
}

int rank_if_known(const core::Environment& environment) {
  try {
    return detect_launch(environment).world_rank;
  } catch (const core::UserError&) {
    return 0;
  }
}

std::string where_text(const core::Environment& environment) {
  const LaunchInfo launch = detect_launch(environment);
  const bool alone = launch.engine.empty();
  const std::string meets =
      alone || launch.world_size == 1 ? "nobody, a world of one"
      : launch.launcher == Launcher::kOpenMpi
          ? "by MPI"
          : core::concat(launch.master_addr, ":", launch.master_port,
                         launch.agent_store ? " (store of the agent)" : " (port of rank 0)");
  const std::string local = launch.says_local_rank
                                ? core::concat(launch.local_rank, " of ", launch.local_size)
                                : "nobody says it; on GPUs ranks are counted on each host";
  return core::concat(
      "engine:     ", alone ? "none" : launch.engine,
      "\nvariables:  ", alone ? "none that show one" : core::join(launch.shown_by, " "),
      "\nrank:       ", launch.world_rank, " of ", launch.world_size, "\nlocal rank: ", local,
      "\nmeets:      ", meets, "\nrestart:    ", launch.restart_count,
      "\ndecision:   ", launch.decision, "\n");
}

}  // namespace fm::launch

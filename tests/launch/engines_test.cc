// Which launcher: the order, and what each one's variables mean.
#include "launch/engines.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "core/check.h"
#include "launch/agent.h"
#include "launch/slurm_nodes.h"

namespace fm::launch {
namespace {

using comm::Launcher;
using comm::LaunchInfo;

using Variables = std::map<std::string, std::string>;

LaunchInfo launch_with(const Variables& variables) {
  return detect_launch([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal_with(const Variables& variables) {
  try {
    launch_with(variables);
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kConfigError);
    return error.what();
  }
  return "not refused";
}

// What torchrun 2.x sets for the second of two workers on the second of two hosts.
const Variables kTorchrun = {{"RANK", "3"},
                             {"LOCAL_RANK", "1"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "node0"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "job7"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

TEST(DetectLaunch, AnEmptyEnvironmentIsAWorldOfOne) {
  const LaunchInfo launch = launch_with({});
  EXPECT_EQ(launch.launcher, Launcher::kAlone);
  EXPECT_EQ(launch.world_size, 1);
  EXPECT_EQ(launch.restart_count, "0");
}

TEST(DetectLaunch, AHostMayHaveALabel) {
  Variables torchrun = kTorchrun;
  EXPECT_EQ(launch_with(torchrun).host_label, "");
  torchrun["FME_HOST"] = "left";
  EXPECT_EQ(launch_with(torchrun).host_label, "left");
  const Variables mpirun = {
      {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"FME_HOST", "left"}};
  EXPECT_EQ(launch_with(mpirun).host_label, "left");
  EXPECT_FALSE(launch_with(mpirun).elastic);
}

TEST(DetectLaunch, AJobMayHaveAName) {
  Variables torchrun = kTorchrun;
  EXPECT_EQ(launch_with(torchrun).job_id, "");
  EXPECT_EQ(launch_with(torchrun).run_id, "job7");
  torchrun["FME_JOB_ID"] = "mine";
  EXPECT_EQ(launch_with(torchrun).job_id, "mine");
}

TEST(DetectLaunch, TorchrunTellsRanksStoreAndRestart) {
  const LaunchInfo launch = launch_with(kTorchrun);
  EXPECT_EQ(launch.launcher, Launcher::kEnvironment);
  EXPECT_EQ(launch.world_rank, 3);
  EXPECT_EQ(launch.world_size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_TRUE(launch.says_local_rank);
  EXPECT_EQ(launch.master_addr, "node0");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_TRUE(launch.elastic);
  EXPECT_EQ(launch.restart_count, "2");
}

TEST(DetectLaunch, OnlyTheWordTrueMeansAgentStore) {
  Variables variables = kTorchrun;
  for (const char* const value : {"true", "1", "False", ""}) {
    variables["TORCHELASTIC_USE_AGENT_STORE"] = value;
    EXPECT_FALSE(launch_with(variables).agent_store) << value;
  }
}

TEST(DetectLaunch, FourVariablesAreEnoughByHand) {
  const LaunchInfo launch = launch_with(
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1234"}});
  EXPECT_EQ(launch.launcher, Launcher::kEnvironment);
  EXPECT_EQ(launch.world_size, 2);
  EXPECT_FALSE(launch.agent_store);
  EXPECT_FALSE(launch.says_local_rank);
  EXPECT_EQ(launch.restart_count, "0");
  EXPECT_TRUE(launch.warnings.empty());
}

TEST(DetectLaunch, TheDeepSpeedLauncherSaysLocalSize) {
  const LaunchInfo launch = launch_with({{"RANK", "1"},
                                         {"WORLD_SIZE", "4"},
                                         {"LOCAL_RANK", "1"},
                                         {"LOCAL_SIZE", "4"},
                                         {"MASTER_ADDR", "a"},
                                         {"MASTER_PORT", "29500"}});
  EXPECT_EQ(launch.local_size, 4);
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_RANK", "1"}};

TEST(DetectLaunch, OpenMpiTellsRanks) {
  const LaunchInfo launch = launch_with(kOpenMpi);
  EXPECT_EQ(launch.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(launch.world_rank, 1);
  EXPECT_EQ(launch.world_size, 2);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_TRUE(launch.warnings.empty());
}

TEST(DetectLaunch, StaleVariablesUnderMpirunAreIgnoredWithAWarning) {
  Variables variables = kOpenMpi;
  variables.insert(
      {{"RANK", "0"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "29500"}});
  const LaunchInfo launch = launch_with(variables);
  EXPECT_EQ(launch.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(launch.world_size, 2);
  ASSERT_EQ(launch.warnings.size(), 2U);
  EXPECT_NE(launch.warnings[0].find("RANK=0, OpenMPI says 1"), std::string::npos);
  EXPECT_NE(launch.warnings[1].find("WORLD_SIZE=8, OpenMPI says 2"), std::string::npos);
}

// RANK=0 of the shell agrees with rank 0 and disagrees with rank 1: both must choose OpenMPI.
TEST(DetectLaunch, StaleVariablesThatAgreeOnOneRankDoNotSplitTheJob) {
  Variables variables = kOpenMpi;
  variables.insert({{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "x"}, {"MASTER_PORT", "29500"}});
  for (const char* const rank : {"0", "1"}) {
    variables["RANK"] = "0";
    variables["OMPI_COMM_WORLD_RANK"] = rank;
    EXPECT_EQ(launch_with(variables).launcher, Launcher::kOpenMpi) << rank;
  }
}

TEST(DetectLaunch, TorchrunInsideMpirunCountsAsTorchrun) {
  Variables variables = kTorchrun;
  variables.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(launch_with(variables).launcher, Launcher::kEnvironment);
}

TEST(DetectLaunch, ValuesThatAreNoRanksAreRefusedWithTheirText) {
  Variables variables = kTorchrun;
  for (const char* const bad : {"two", "-1", "3.0", "", " 3", "99999999999"}) {
    variables["RANK"] = bad;
    EXPECT_NE(refusal_with(variables).find(core::concat("RANK=\"", bad, "\"")), std::string::npos);
  }
  variables["RANK"] = "4";
  EXPECT_NE(refusal_with(variables).find("RANK=4, WORLD_SIZE=4"), std::string::npos);
  variables = kTorchrun;
  variables["MASTER_PORT"] = "70000";
  EXPECT_NE(refusal_with(variables).find("MASTER_PORT=70000"), std::string::npos);
  variables = kTorchrun;
  variables["LOCAL_RANK"] = "2";
  EXPECT_NE(refusal_with(variables).find("local rank 2"), std::string::npos);
  variables = kTorchrun;
  variables.erase("MASTER_ADDR");
  EXPECT_NE(refusal_with(variables).find("MASTER_ADDR"), std::string::npos);
}

TEST(DetectLaunch, ManyProcessesNeverRunAloneSilently) {
  EXPECT_NE(refusal_with({{"RANK", "1"}, {"WORLD_SIZE", "4"}}).find("MASTER_ADDR=unset"),
            std::string::npos);
  EXPECT_NE(refusal_with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).find("(PMI_SIZE=2"),
            std::string::npos);
  EXPECT_NE(refusal_with({{"PET_NNODES", "2"}}).find("PET_NODE_RANK must be"), std::string::npos);
}

TEST(DetectLaunch, AWorldSizeWithoutARankIsRefused) {
  EXPECT_NE(refusal_with({{"WORLD_SIZE", "4"}}).find("(WORLD_SIZE=4)"), std::string::npos);
  for (const char* size : {"abc", "4x", "-4", "2.0"}) {
    const std::string said = refusal_with({{"WORLD_SIZE", size}});
    EXPECT_NE(said.find("WORLD_SIZE must be a whole number"), std::string::npos) << said;
    EXPECT_NE(said.find(core::concat("(WORLD_SIZE=\"", size, "\")")), std::string::npos) << said;
  }
  EXPECT_NE(refusal_with({{"RANK", "first"}}).find("RANK must be a whole number"),
            std::string::npos);
  EXPECT_NE(refusal_with({{"PMI_SIZE", "many"}}).find("PMI_SIZE must be a whole number"),
            std::string::npos);
  EXPECT_EQ(launch_with({{"WORLD_SIZE", "1"}}).launcher, Launcher::kAlone);
  Variables mpirun = kOpenMpi;
  mpirun["WORLD_SIZE"] = "4";
  EXPECT_EQ(launch_with(mpirun).world_size, 2);
}

// Each rank would train alone, into the same folder.
TEST(DetectLaunch, ARankWithoutAWorldSizeIsRefused) {
  for (const char* const rank : {"0", "1"}) {
    EXPECT_NE(
        refusal_with({{"RANK", rank}}).find(core::concat("(RANK=", rank, ", WORLD_SIZE=unset")),
        std::string::npos);
    EXPECT_NE(refusal_with({{"RANK", rank}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}})
                  .find("WORLD_SIZE=unset, MASTER_ADDR=a, MASTER_PORT=29500"),
              std::string::npos);
  }
  EXPECT_NE(refusal_with({{"RANK", "1"}, {"WORLD_SIZE", "1"}}).find("RANK=1, WORLD_SIZE=1"),
            std::string::npos);
  EXPECT_EQ(launch_with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).launcher, Launcher::kAlone);
  EXPECT_EQ(launch_with({{"RANK", ""}}).launcher, Launcher::kAlone);
  EXPECT_EQ(launch_with({{"LOCAL_RANK", "0"}}).launcher, Launcher::kAlone);
}

// One process of mpirun where the variables speak of eight: it would train alone.
TEST(DetectLaunch, OneProcessOfMpirunThatIsToldOfManyIsRefused) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  EXPECT_EQ(launch_with(variables).world_size, 1);
  variables["WORLD_SIZE"] = "1";
  EXPECT_EQ(launch_with(variables).world_size, 1);
  variables["WORLD_SIZE"] = "8";
  EXPECT_NE(refusal_with(variables).find("(WORLD_SIZE=8, mpirun started 1)"), std::string::npos);
  variables["RANK"] = "0";
  EXPECT_NE(refusal_with(variables).find("(WORLD_SIZE=8, mpirun started 1)"), std::string::npos);
}

// What Slurm 22.05 sets for the second task of the second of three nodes, of the fields that count.
const Variables kSrun = {{"SLURM_JOB_ID", "5071"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_NTASKS", "5"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                         {"SLURM_STEP_NODELIST", "gpu[08-09],big1"},
                         {"SLURM_RESTART_COUNT", "1"}};

TEST(DetectLaunch, SrunTellsRanksAndTheHostToMeetAt) {
  const LaunchInfo launch = launch_with(kSrun);
  EXPECT_EQ(launch.launcher, Launcher::kEnvironment);
  EXPECT_EQ(launch.world_rank, 3);
  EXPECT_EQ(launch.world_size, 5);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.master_addr, "gpu08");
  EXPECT_EQ(launch.master_port, 12'000 + (7 * 5071 + 2) % 20'000);
  EXPECT_EQ(launch.restart_count, "1");
  EXPECT_EQ(launch.job_id, "slurm 5071.2");
  EXPECT_EQ(launch.decision,
            "rank 3 of 5, from srun (SLURM_STEP_ID is set, step 5071.2), meeting at gpu08:27499 "
            "(port of rank 0)");
}

TEST(DetectLaunch, WhatIsSaidByHandHoldsUnderSrun) {
  Variables variables = kSrun;
  variables.insert({{"MASTER_ADDR", "ib-gpu08"}, {"MASTER_PORT", "29500"}, {"FME_JOB_ID", "mine"}});
  const LaunchInfo launch = launch_with(variables);
  EXPECT_EQ(launch.world_rank, 3);
  EXPECT_EQ(launch.master_addr, "ib-gpu08");
  EXPECT_EQ(launch.master_port, 29500);
  EXPECT_EQ(launch.job_id, "mine");
  variables.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(launch_with(variables).launcher, Launcher::kOpenMpi);  // mpirun in a job of Slurm
}

TEST(DetectLaunch, AnotherMpiOnOneHostMeetsThere) {
  const Variables pmi = {
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const LaunchInfo launch = launch_with(pmi);
  EXPECT_EQ(launch.world_rank, 1);
  EXPECT_EQ(launch.world_size, 2);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.master_addr, "127.0.0.1");
  EXPECT_EQ(launch.master_port, launch_with(pmi).master_port);
  Variables hosts = pmi;
  hosts["MPI_LOCALNRANKS"] = "1";
  hosts["MPI_LOCALRANKID"] = "0";
  EXPECT_NE(refusal_with(hosts).find("(PMI_SIZE=2, MPI_LOCALNRANKS=1)"), std::string::npos);
  hosts.insert({{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(launch_with(hosts).master_addr, "a");
}

// srun --mpi=pmix (Slurm 22.05) sets these beside its own.
TEST(DetectLaunch, SrunWithPmixIsSlurm) {
  Variables variables = kSrun;
  variables.insert({{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.5071.2"}});
  EXPECT_EQ(launch_with(variables).engine, "Slurm");
  EXPECT_EQ(launch_with(variables).world_rank, 3);
  EXPECT_NE(refusal_with({{"PMIX_RANK", "1"}}).find("(PMIX_RANK=1)"), std::string::npos);
  EXPECT_EQ(launch_with({{"PMIX_RANK", "0"}, {"SLURM_STEP_ID", "0"}}).engine, "");
}

// srun --mpi=pmi2 tells PMI's numbers, too; where Hydra starts its proxies by srun they differ.
TEST(DetectLaunch, SrunWithPmiIsSlurmUnlessItsTasksAreProxies) {
  Variables variables = kSrun;
  variables.insert({{"PMI_RANK", "3"}, {"PMI_SIZE", "5"}});
  EXPECT_EQ(launch_with(variables).engine, "Slurm");
  variables["PMI_SIZE"] = "8";
  variables.insert({{"MASTER_ADDR", "gpu08"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(launch_with(variables).engine, "PMI");
  EXPECT_EQ(launch_with(variables).world_size, 8);
}

TEST(DetectLaunch, MvapichTellsRanks) {
  const LaunchInfo launch = launch_with({{"MV2_COMM_WORLD_RANK", "1"},
                                         {"MV2_COMM_WORLD_SIZE", "2"},
                                         {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                                         {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(launch.engine, "MVAPICH");
  EXPECT_EQ(launch.world_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.master_addr, "127.0.0.1");
}

// PyTorchJob of Kubeflow 1: a rank per pod, and no LOCAL_RANK.
TEST(DetectLaunch, PodsOfPyTorchJobAreRanks) {
  const LaunchInfo launch = launch_with({{"RANK", "1"},
                                         {"WORLD_SIZE", "2"},
                                         {"MASTER_ADDR", "job-master-0"},
                                         {"MASTER_PORT", "23456"}});
  EXPECT_EQ(launch.engine, "by hand");
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_EQ(launch.local_size, 1);
}

const Variables kRay = {{"RANK", "1"},           {"LOCAL_RANK", "0"},       {"WORLD_SIZE", "2"},
                        {"NODE_RANK", "1"},      {"LOCAL_WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"},
                        {"MASTER_PORT", "4000"}, {"RAY_JOB_ID", "01000000"}};

TEST(DetectLaunch, RayTrainKeepsItsOwnPort) {
  EXPECT_EQ(launch_with(kRay).engine, "Ray Train");
  EXPECT_EQ(launch_with(kRay).master_port, 4001);
  for (const char* const name : {"FME_MASTER_PORT", "FMENGINE_MASTER_PORT"}) {
    Variables variables = kRay;
    variables[name] = "5000";
    EXPECT_EQ(launch_with(variables).master_port, 5000);
  }
  Variables last = kRay;
  last["MASTER_PORT"] = "65535";
  EXPECT_NE(refusal_with(last).find("set FME_MASTER_PORT"), std::string::npos);
}

TEST(DetectLaunch, APortOfOurOwnWinsUnderEveryEngine) {
  for (Variables variables : {kTorchrun, kSrun}) {
    variables["FME_MASTER_PORT"] = "5000";
    EXPECT_EQ(launch_with(variables).master_port, 5000);
    EXPECT_FALSE(launch_with(variables).agent_store);  // the store listens at MASTER_PORT
    variables["FME_MASTER_PORT"] = "0";
    EXPECT_NE(refusal_with(variables).find("(FME_MASTER_PORT=0)"), std::string::npos);
  }
}

// fmengine run, itself started by mpirun or torchrun, once per host.
TEST(DetectLaunch, AnAgentOfOursWinsOverWhatStartedIt) {
  for (const auto& outer : {kTorchrun, kOpenMpi, kRay, kSrun}) {
    for (const auto& [name, value] : outer) setenv(name.c_str(), value.c_str(), 1);
    setenv("FME_JOB_TOKEN", "of another start", 1);
    const auto list = variables_of({.world_size = 2,
                                    .master_addr = "a",
                                    .master_port = 1,
                                    .token_in_file = true,
                                    .restart = "3"},
                                   0);
    for (const auto& [name, value] : outer) unsetenv(name.c_str());
    unsetenv("FME_JOB_TOKEN");
    Variables variables;
    for (const std::string& each : list) {
      variables[each.substr(0, each.find('='))] = each.substr(each.find('=') + 1);
    }
    const LaunchInfo launch = launch_with(variables);
    EXPECT_EQ(launch.engine, "fmengine run");
    EXPECT_EQ(launch.restart_count, "3");
    EXPECT_FALSE(launch.elastic);
    EXPECT_FALSE(variables.contains("FME_JOB_TOKEN"));
  }
}

// fmengine run -- torchrun ..., or mpirun.
TEST(DetectLaunch, WhatAnAgentOfOursStartsWinsOverIt) {
  for (Variables variables : {kTorchrun, kOpenMpi}) {
    variables.insert({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"}});
    variables.insert({{"MASTER_PORT", "1"}, {"FME_AGENT", "1"}});
    EXPECT_GT(launch_with(variables).world_size, 1);
    EXPECT_NE(launch_with(variables).engine, "fmengine run");
  }
}

std::string where_with(const Variables& variables) {
  return where_text([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Where, PrintsEngineVariablesAndMeetingPoint) {
  EXPECT_EQ(where_with({}),
            "engine:     none\n"
            "variables:  none that show one\n"
            "rank:       0 of 1\n"
            "local rank: 0 of 1\n"
            "meets:      nobody, a world of one\n"
            "restart:    0\n"
            "decision:   started alone, by no launcher\n");
  EXPECT_EQ(
      where_with(kRay),
      "engine:     Ray Train\n"
      "variables:  RAY_JOB_ID=01000000 NODE_RANK=1 RANK=1 WORLD_SIZE=2 MASTER_ADDR=a "
      "MASTER_PORT=4000\n"
      "rank:       1 of 2\n"
      "local rank: 0 of 1\n"
      "meets:      a:4001 (port of rank 0)\n"
      "restart:    0\n"
      "decision:   rank 1 of 2, from Ray Train (NODE_RANK and RAY_JOB_ID are set), meeting at "
      "a:4001 (port of rank 0)\n");
}

// On a host with several GPUs 0 of 1 would be wrong for all ranks but one.
TEST(Where, ALocalRankThatNobodySaysIsNotMadeUp) {
  const Variables hand = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "4000"}};
  EXPECT_NE(where_with(hand).find("\nlocal rank: nobody says it; on GPUs ranks are counted"),
            std::string::npos);
  Variables more = hand;
  more["LOCAL_RANK"] = "1";
  EXPECT_NE(where_with(more).find("\nlocal rank: 1 of 2\n"), std::string::npos);
}

TEST(DetectLaunch, NodesOfKubeflowAreRanks) {
  Variables pet = {{"PET_NNODES", "2"},
                   {"PET_NPROC_PER_NODE", "1"},
                   {"PET_NODE_RANK", "1"},
                   {"PET_MASTER_ADDR", "job-0"},
                   {"PET_MASTER_PORT", "23456"}};
  const LaunchInfo launch = launch_with(pet);
  EXPECT_EQ(launch.world_rank, 1);
  EXPECT_EQ(launch.world_size, 2);
  EXPECT_EQ(launch.local_size, 1);
  EXPECT_EQ(launch.master_addr, "job-0");
  EXPECT_EQ(launch.master_port, 23456);
  pet["PET_NPROC_PER_NODE"] = "8";
  EXPECT_NE(refusal_with(pet).find("start this one by fmengine run"), std::string::npos);
}

// By scontrol show hostnames.
TEST(SlurmLists, AreExpandedAsScontrolDoes) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(slurm_hosts("n1"), (Hosts{"n1"}));
  EXPECT_EQ(slurm_hosts("gpu[01-03,7],login"), (Hosts{"gpu01", "gpu02", "gpu03", "gpu7", "login"}));
  EXPECT_EQ(slurm_hosts("n[9-11]"), (Hosts{"n9", "n10", "n11"}));
  EXPECT_EQ(slurm_hosts("r[1-2]n[1-2]"), (Hosts{"r1n1", "r1n2", "r2n1", "r2n2"}));
  EXPECT_EQ(slurm_hosts("a[1]-ib,b"), (Hosts{"a1-ib", "b"}));
  EXPECT_EQ(slurm_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(slurm_counts("4"), (std::vector<int>{4}));
}

TEST(SlurmLists, ThatAreNoneAreRefusedWithTheirText) {
  for (const char* const list : {"", "a,,b", "a[1-", "a]", "a[[1]]", "a[3-1]", "a[x]", "a[]",
                                 "a[1-]", "a[1-99999999999999999999]", "a[1-60000],b[1-60000]"}) {
    EXPECT_THROW(slurm_hosts(list), core::UserError) << list;
  }
  for (const char* const list : {"", "2(x", "x(x2)", "2(x0)", "2(x-1)", "-1", "1(x999999999999)"}) {
    EXPECT_THROW(slurm_counts(list), core::UserError) << list;
  }
}

int known_rank_with(const Variables& variables) {
  return rank_if_known([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(KnownRank, IsThatOfTheLauncherThatCounts) {
  EXPECT_EQ(known_rank_with({}), 0);
  EXPECT_EQ(known_rank_with(kTorchrun), 3);
  Variables second = kOpenMpi;
  second["RANK"] = "0";  // left over
  EXPECT_EQ(known_rank_with(second), 1);
}

TEST(KnownRank, IsZeroWhereTheVariablesAreWrong) {
  EXPECT_EQ(known_rank_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), 0);
  for (const auto& [name, value] : Variables{{"RANK", "abc"},
                                             {"WORLD_SIZE", "2"},
                                             {"LOCAL_RANK", "5"},
                                             {"MASTER_PORT", "0"},
                                             {"MASTER_ADDR", ""}}) {
    Variables wrong = kTorchrun;
    wrong[name] = value;
    EXPECT_EQ(known_rank_with(wrong), 0) << name;
  }
}

TEST(DetectLaunch, ABareSbatchShellIsAWorldOfOne) {
  const LaunchInfo launch =
      launch_with({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_EQ(launch.launcher, Launcher::kAlone);
}

}  // namespace
}  // namespace fm::launch

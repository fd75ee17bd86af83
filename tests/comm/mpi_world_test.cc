// What only ranks under mpirun can meet: MPI's own waits, and who comes to its ports.
#include "comm/meet/mpi_world.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/process_job.h"
#include "tests/comm/unknown_peers.h"

namespace fm::comm {
namespace {

// What listens at one interface between hosts does not listen at 127.0.0.1.
TEST(Rendezvous, TheWatchIsReachedWhereItListens) {
  const std::vector<std::string> of_host{"10.0.0.1", "192.168.0.1"};
  EXPECT_EQ(watch_places(false, "", of_host).near, "127.0.0.1");
  EXPECT_EQ(watch_places(false, "", of_host).far, of_host);
  EXPECT_EQ(watch_places(false, "10.0.0.1", of_host).near, "10.0.0.1");
  EXPECT_EQ(watch_places(false, "10.0.0.1", of_host).far, std::vector<std::string>{"10.0.0.1"});
  EXPECT_EQ(watch_places(true, "10.0.0.1", of_host).near, "127.0.0.1");
}

// OpenMPI tells which of its layers it looks at: "cm" asks every fabric.
TEST(Rendezvous, RanksOfOneHostLookForNoFabricUnlessTheUserSaysSo) {
  const auto looked_at = [](const char* layer, std::vector<std::string> variables) {
    variables.emplace_back("OMPI_MCA_pml_base_verbose=10");
    ProcessJob job(Starter::kMpirun, 2, {"cases", "memory"}, {.variables = variables});
    EXPECT_TRUE(job.wait(kWatchdogMs)) << job.output();
    return occurrences(job.output(), core::concat("found loaded component ", layer)) > 0;
  };
  EXPECT_TRUE(looked_at("ob1", {}));
  EXPECT_FALSE(looked_at("cm", {}));
  EXPECT_TRUE(looked_at("cm", {"OMPI_MCA_pml=^ucx"}));
}

TEST(Rendezvous, AnMpiInitThatDoesNotReturnEndsAtItsLimit) {
  ProcessJob job(Starter::kMpirun, 2, {"late", "1"});
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  EXPECT_EQ(job.exit_codes()[0], 14) << job.output();
  EXPECT_EQ(occurrences(job.output(), "fmengine: every rank must come to MPI_Init"), 1)
      << job.output();
  EXPECT_EQ(occurrences(job.output(), "rank 0 waited 1500 ms"), 1) << job.output();
}

TEST(UnknownPeers, FindNoPortOfRanksOfOneHostUnderMpirunUnlessTheUserSaysSo) {
  const auto ports = [](const std::vector<std::string>& variables) {
    ProcessJob job(Starter::kMpirun, 2, {"idle"}, {.variables = variables});
    return listening_ports(job.rank_pid(0)).size() + listening_ports(job.rank_pid(1)).size();
  };
  EXPECT_EQ(ports({}), 0U);
  EXPECT_GT(ports({"OMPI_MCA_btl=tcp,self"}), 0U);
}

// As between hosts. MPI reads the rest of a greeting, on the thread that looks at the limit.
TEST(UnknownPeers, WhoHoldHalfAGreetingToMpiHoldNobodyPastTheLimit) {
  ProcessJob job(Starter::kMpirun, 2, {"besieged", "messages"},
                 {.variables = {"OMPI_MCA_btl=tcp,self"}});
  std::vector<std::vector<Socket>> visits;
  for (const int rank : {0, 1}) visits.push_back(visit(listening_ports(job.rank_pid(rank)), "x"));
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  EXPECT_EQ(job.exit_codes()[0], 21) << job.output();
  EXPECT_GE(occurrences(job.output(), "every call into MPI must return within the limit"), 1)
      << job.output();
  EXPECT_GE(occurrences(job.output(), " was in MPI_"), 1) << job.output();
}

// mpirun, which MPI_Finalize asks, does not answer.
TEST(Shutdown, AnMpiFinalizeThatDoesNotReturnEndsAtTheLimit) {
  ProcessJob job(Starter::kMpirun, 2, {"finalize"});
  for (const int rank : {0, 1}) job.rank_pid(rank);
  ASSERT_EQ(kill(job.started()[0], SIGSTOP), 0);
  EXPECT_TRUE(job.all_ranks_gone(kWatchdogMs)) << job.output();
  ASSERT_EQ(kill(job.started()[0], SIGCONT), 0);
  ASSERT_TRUE(job.wait(kWatchdogMs)) << job.output();
  EXPECT_EQ(job.exit_codes()[0], 21) << job.output();
  EXPECT_GE(occurrences(job.output(), "MPI_Finalize must return within the limit"), 1)
      << job.output();
}

}  // namespace
}  // namespace fm::comm

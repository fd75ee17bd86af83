#include "engine/plan/between_hosts.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "core/text.h"
#include "engine/plan/run_plan.h"
#include "kernels/pointwise/quantize.h"

namespace fm::engine {
namespace {

using comm::Travel;

bool asks(const TrainOptions& options) {
  return options.gradient_travel != Travel::kWhole || options.weight_travel != Travel::kWhole ||
         options.hpz_ranks > 1;
}
bool asks_zero_plus(const TrainOptions& options) {
  return options.gradient_travel == Travel::kInt4 || options.weight_travel != Travel::kWhole ||
         options.hpz_ranks > 1;
}

// The groups of data ranks, each by the hosts of its members.
std::vector<std::vector<int>> groups_of(const BetweenHosts& between, const core::Mesh& mesh) {
  std::vector<std::vector<int>> out;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const std::vector<int> group = mesh.shard_group(rank);
    if (group.front() == rank) out.push_back(between.hosts_of(group));
  }
  return out;
}

bool on_several_hosts(const std::vector<std::vector<int>>& groups) {
  return std::ranges::any_of(groups, [](const std::vector<int>& hosts) {
    return std::ranges::any_of(hosts, [&](int host) { return host != hosts.front(); });
  });
}

// Data ranks on each host, where all have equally many; 0: they have not.
int ranks_on_each(const std::vector<std::vector<int>>& groups) {
  std::set<int> counts;
  for (const std::vector<int>& hosts : groups) {
    std::map<int, int> here;
    for (const int host : hosts) ++here[host];
    for (const auto& [host, count] : here) counts.insert(count);
  }
  return counts.size() == 1 ? *counts.begin() : 0;
}

void check_secondary(int asked, const std::vector<std::vector<int>>& groups) {
  const int each = ranks_on_each(groups);
  FM_USER_CHECK(each > 0,
                "zero_hpz_partition_size needs equally many data ranks on every host; start as "
                "many on each, or set it to 1 (zero_hpz_partition_size=",
                asked, ")");
  FM_USER_CHECK(asked == each,
                "zero_hpz_partition_size must be the number of data ranks on each host; set it to ",
                each, each == 1 ? ", which turns it off" : "", " (zero_hpz_partition_size=", asked,
                ", data ranks on each host=", each, ")");
}

std::string form_of(Travel travel) {
  switch (travel) {
    case Travel::kWhole: return "as they are";
    case Travel::kBF16: return "bf16";
    case Travel::kF16: return "fp16";
    case Travel::kInt8: return core::concat("8 bits in blocks of ", kernels::kQuantBlock);
    case Travel::kInt4: return core::concat("4 bits in blocks of ", kernels::kQuantBlock);
  }
  return "";
}

// Half a step of what a number is rounded to.
std::string error_of(Travel travel) {
  switch (travel) {
    case Travel::kWhole: return "nothing";
    case Travel::kBF16: return "1/256 of itself";
    case Travel::kF16: return "1/2048 of itself";
    case Travel::kInt8: return "1/254 of the largest number of its block";
    case Travel::kInt4: return "1/14 of the largest number of its block";
  }
  return "";
}

}  // namespace

std::vector<int> BetweenHosts::hosts_of(const std::vector<int>& ranks) const {
  std::vector<int> out;
  for (const int rank : ranks) {
    out.push_back(host_of.empty() ? rank : host_of[static_cast<std::size_t>(rank)]);
  }
  return out;
}

BetweenHosts between_hosts(const TrainOptions& options, const core::Mesh& mesh,
                           const WorldShape& world) {
  const bool one_host = world.sharing == core::ParamSharing::kOneHost;
  BetweenHosts out{.host_of = world.host_of};
  if (out.host_of.empty() && one_host) out.host_of.assign(static_cast<std::size_t>(world.ranks), 0);
  if (!asks(options)) return out;
  const std::vector<std::vector<int>> groups = groups_of(out, mesh);
  if (!on_several_hosts(groups)) return out;
  const bool cards = options.device.kind == DeviceKind::kCuda;
  FM_USER_CHECK(!cards || !asks_zero_plus(options),
                "zero_hpz_partition_size, zero_quantized_weights and zero_quantized_gradients need "
                "ranks that compute on CPUs; remove them, or add --device cpu (--device cuda)");
  if (cards) return out;
  if (options.hpz_ranks > 1) check_secondary(options.hpz_ranks, groups);
  out.gradients = options.gradient_travel;
  out.weights = options.weight_travel;
  out.secondary = options.hpz_ranks;
  return out;
}

std::vector<std::string> between_hosts_words(const TrainOptions& options, const RunPlan& plan) {
  const BetweenHosts& between = plan.between;
  std::vector<std::string> words;
  const bool acts = between.gradients != Travel::kWhole || between.weights != Travel::kWhole ||
                    between.secondary > 1;
  if (asks(options) && !acts) {
    const bool cards = options.device.kind == DeviceKind::kCuda;
    words.emplace_back(cards ? "between GPUs gradients travel in fp32; communication_data_type "
                               "has no effect"
                             : "data ranks are on one host: nothing travels between hosts, and "
                               "nothing is rounded for it");
  }
  if (between.gradients != Travel::kWhole) {
    words.push_back(core::concat("gradients travel between hosts in ", form_of(between.gradients),
                                 ", each sum that arrives off by at most ",
                                 error_of(between.gradients)));
  }
  if (between.weights != Travel::kWhole) {
    words.push_back(core::concat("gathered weights travel between hosts in ",
                                 form_of(between.weights), ", off by at most ",
                                 error_of(between.weights)));
  }
  if (between.secondary > 1) {
    words.push_back(core::concat("the ", between.secondary,
                                 " data ranks of a host keep what was gathered until the update"));
  }
  return words;
}

}  // namespace fm::engine

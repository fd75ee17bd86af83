#include "engine/state/same_start.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "comm/agree.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::engine {

using Json = nlohmann::json;

void check_same_start(const std::vector<Fact>& facts, comm::Communicator& world) {
  const std::vector<std::string> all = comm::gather_texts(world, values_for(kRanksAgree, facts));
  const auto other =
      std::ranges::find_if(all, [&](const std::string& one) { return one != all[0]; });
  if (other == all.end()) return;
  const Json first = Json::parse(all[0]);
  const Json odd = Json::parse(*other);
  std::vector<std::string> out;
  for (const auto& [key, value] : odd.items()) {
    const std::string expected = first.contains(key) ? first[key].dump() : "given";
    if (expected != value.dump())
      out.push_back(core::concat(key, " is ", value.dump(), ", not ", expected));
  }
  FM_USER_CHECK(false,
                "all ranks must be started with the same JSON, flags, model and data; give every "
                "host the same files (rank ",
                other - all.begin(), " beside rank 0: ", core::join(out, "; "), ")");
}

}  // namespace fm::engine

#include "engine/gather_texts.h"

#include <algorithm>
#include <cstdint>

namespace fm::engine {

std::vector<std::string> gather_texts(const std::string& mine, comm::Communicator& world) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto length = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> lengths(ranks);
  world
      .all_gather({&length, core::Elements(1), core::DType::kI64},
                  {lengths.data(), core::Elements(world.size()), core::DType::kI64})
      .wait();
  const core::Elements longest(std::ranges::max(lengths));
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest.count()));
  std::string all(padded.size() * ranks, ' ');
  world
      .all_gather({padded.data(), longest, core::DType::kU8},
                  {all.data(), longest * world.size(), core::DType::kU8})
      .wait();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

}  // namespace fm::engine

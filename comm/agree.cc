#include "comm/agree.h"

#include <algorithm>

namespace fm::comm {
namespace {

core::Elements elements_of(std::size_t count) {
  return core::Elements(static_cast<std::int64_t>(count));
}

Span span_of(std::string& text) {
  return {text.data(), elements_of(text.size()), core::DType::kU8};
}

std::string broadcast_text(Communicator& world, std::string text, int root) {
  auto size = static_cast<std::int64_t>(text.size());
  world.broadcast({&size, core::Elements(1), core::DType::kI64}, root).finish();
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) world.broadcast(span_of(text), root).finish();
  return text;
}

}  // namespace

std::vector<std::int64_t> gather_numbers(Communicator& world, std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world
      .all_gather({&mine, core::Elements(1), core::DType::kI64},
                  {all.data(), elements_of(all.size()), core::DType::kI64})
      .finish();
  return all;
}

std::string first_problem(Communicator& world, const std::string& mine) {
  const std::vector<std::int64_t> sizes =
      gather_numbers(world, static_cast<std::int64_t>(mine.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (sizes[static_cast<std::size_t>(rank)] == 0) continue;
    return core::concat("rank ", rank, ": ", broadcast_text(world, mine, rank));
  }
  return "";
}

std::string text_of_rank0(Communicator& world, const std::string& mine) {
  return broadcast_text(world, world.rank() == 0 ? mine : "", 0);
}

std::vector<std::string> gather_texts(Communicator& world, const std::string& mine) {
  const std::vector<std::int64_t> lengths =
      gather_numbers(world, static_cast<std::int64_t>(mine.size()));
  const core::Elements longest(std::ranges::max(lengths));
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest.count()));
  std::string all(padded.size() * lengths.size(), ' ');
  world
      .all_gather({padded.data(), longest, core::DType::kU8},
                  {all.data(), longest * world.size(), core::DType::kU8})
      .finish();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(lengths[rank])));
  }
  return texts;
}

}  // namespace fm::comm

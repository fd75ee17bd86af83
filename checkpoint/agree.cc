#include "checkpoint/agree.h"

namespace fm::checkpoint {
namespace {

core::Elements elements_of(std::size_t count) {
  return core::Elements(static_cast<std::int64_t>(count));
}

comm::Span span_of(std::string& text) {
  return {text.data(), elements_of(text.size()), core::DType::kU8};
}

std::string broadcast_text(comm::Communicator& world, std::string text, int root) {
  auto size = static_cast<std::int64_t>(text.size());
  world.broadcast({&size, core::Elements(1), core::DType::kI64}, root).wait();
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) world.broadcast(span_of(text), root).wait();
  return text;
}

}  // namespace

std::vector<std::int64_t> gather_numbers(comm::Communicator& world, std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size()));
  world
      .all_gather({&mine, core::Elements(1), core::DType::kI64},
                  {all.data(), elements_of(all.size()), core::DType::kI64})
      .wait();
  return all;
}

std::string first_problem(comm::Communicator& world, const std::string& mine) {
  const std::vector<std::int64_t> sizes =
      gather_numbers(world, static_cast<std::int64_t>(mine.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    if (sizes[static_cast<std::size_t>(rank)] == 0) continue;
    return core::concat("rank ", rank, ": ", broadcast_text(world, mine, rank));
  }
  return "";
}

std::string text_of_rank0(comm::Communicator& world, const std::string& mine) {
  return broadcast_text(world, world.rank() == 0 ? mine : "", 0);
}

std::vector<std::string> gather_texts(comm::Communicator& world, const std::string& mine) {
  const std::vector<std::int64_t> sizes =
      gather_numbers(world, static_cast<std::int64_t>(mine.size()));
  std::string own = mine;
  if (world.rank() != 0) {
    if (!own.empty()) world.send(span_of(own), 0).wait();
    return {};
  }
  std::vector<std::string> texts(sizes.size());
  texts[0] = std::move(own);
  std::vector<comm::Pending> pending;
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    texts[rank].resize(static_cast<std::size_t>(sizes[rank]));
    if (texts[rank].empty()) continue;
    pending.push_back(world.receive(span_of(texts[rank]), static_cast<int>(rank)));
  }
  for (comm::Pending& one : pending) one.wait();
  return texts;
}

}  // namespace fm::checkpoint

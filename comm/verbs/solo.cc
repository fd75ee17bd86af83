#include <cstring>

#include "comm/communicator.h"

namespace fm::comm {
namespace {

class Solo : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string describe() const override { return "solo, 1 rank"; }

  Pending all_gather(ConstSpan send, Span receive) override { return copy(send, receive); }
  Pending reduce_scatter_to(ConstSpan send, Span receive, SumVisitor* visitor) override {
    copy(send, receive);
    if (visitor != nullptr) visitor->visit(core::Elements(0), receive.elements);
    return {};
  }
  Pending all_reduce(Span) override { return {}; }
  Pending all_to_all(ConstSpan send, Span receive) override { return copy(send, receive); }
  Pending broadcast(Span, int root) override {
    FM_CHECK(root == 0, "root ", root, " in a world of one");
    return {};
  }
  Pending send(ConstSpan, int peer) override { return no_peer(peer); }
  Pending receive(Span, int peer) override { return no_peer(peer); }
  Pending barrier() override { return {}; }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    FM_CHECK(members.size() == 1 && members[0] == 0, "a world of one splits into itself only");
    return make_solo();
  }

 private:
  static Pending copy(const ConstSpan& from, const Span& to) {
    FM_CHECK(from.elements == to.elements && from.dtype == to.dtype, "copy of ",
             from.elements.count(), " ", core::name_of(from.dtype), " into ", to.elements.count(),
             " ", core::name_of(to.dtype));
    if (from.data != to.data && from.bytes() > core::Bytes(0)) {
      std::memcpy(to.data, from.data, static_cast<std::size_t>(from.bytes().count()));
    }
    return {};
  }

  static Pending no_peer(int peer) {
    FM_CHECK(false, "a world of one has no peer ", peer);
    return {};
  }
};

}  // namespace

std::unique_ptr<Communicator> make_solo() { return std::make_unique<Solo>(); }

}  // namespace fm::comm

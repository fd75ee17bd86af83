#include "pipeline/tile_order.h"

#include "core/check.h"

namespace fm::pipeline {

using core::concat;

std::string TileOrder::needs_all(const Pass& pass) const {
  const UnitRange tiles = tiles_of(pass.end);
  const auto at = through_.find(pass);
  const int next = tiles.first + (at == through_.end() ? 0 : at->second);
  return next == tiles.last ? ""
                            : concat("it needs ", print({pass.op, pass.micro, next}), " first");
}

std::string TileOrder::needs_end(const Pass& pass) const {
  if (ends_.contains(pass)) return "";
  return concat("it needs ", print({pass.op, pass.micro, pass.end}), " first");
}

// The unit that has the tiles.
std::string TileOrder::check_end(const Instruction& at, int end) {
  std::string reason;
  if (end == 0 && (at.op == Op::kForward || at.op == Op::kBackwardWeight)) {
    reason = needs_all({at.micro, at.op, end});
  }
  if (at.op == Op::kBackward) return "its tiles read the gradient between its halves";
  if (at.op == Op::kLoss) {
    reason = needs_all({at.micro, units_.evaluates() ? Op::kRecompute : Op::kBackwardWeight, end});
  }
  if (reason.empty() && !ends_.insert({at.micro, at.op, end}).second) return "this has run already";
  return reason;
}

std::string TileOrder::check_tile(const Instruction& at) {
  const int end = units_.end_of(at.unit);
  std::string reason;
  if (end == 0) {
    if (at.op == Op::kBackwardWeight) reason = needs_end({at.micro, Op::kBackwardInput, end});
    if (at.op == Op::kRecompute) return "the embedding has one pass forward";
  } else {
    if (at.op == Op::kForward) reason = needs_end({at.micro, Op::kForward, end});
    if (at.op == Op::kRecompute) reason = needs_all({at.micro, Op::kForward, end});
    if (at.op == Op::kBackwardWeight) reason = needs_all({at.micro, Op::kRecompute, end});
  }
  if (at.op == Op::kBackward || at.op == Op::kBackwardInput) return "a tile has no such half";
  if (!reason.empty()) return reason;
  int& through = through_[{at.micro, at.op, end}];
  const int next = tiles_of(end).first + through;
  if (at.unit < next) return "this tile has had its turn";
  if (at.unit > next) return concat("it needs ", print({at.op, at.micro, next}), " first");
  ++through;
  return "";
}

std::string TileOrder::check(const Instruction& at) {
  const int unit = units_.unit_of(at);
  if (row_of(at.op).forwards == 0.0 || unit < 0) return "";
  if (units_.is_tile(unit)) return check_tile(at);
  const bool end = unit == 0 || unit == units_.head();
  return end && tiles_of(unit).count() > 0 ? check_end(at, unit) : "";
}

}  // namespace fm::pipeline

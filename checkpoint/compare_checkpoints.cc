#include "checkpoint/compare_checkpoints.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "checkpoint/compared_side.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "core/check.h"

namespace fm::checkpoint {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 18;  // elements that are looked at together

struct ComparedType {
  std::string_view name;
  StoredFloat stored;
  std::int64_t bytes;
  int fraction;  // bits
};
constexpr ComparedType kTypes[] = {{"F32", StoredFloat::kF32, 4, 23},
                                   {"F16", StoredFloat::kF16, 2, 10},
                                   {"BF16", StoredFloat::kBF16, 2, 7},
                                   {"F64", StoredFloat::kF64, 8, 52}};

const ComparedType* type_of(const ComparedTensor& tensor) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const auto& type) { return type.name == tensor.dtype; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::int64_t elements_of(const ComparedTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  return count;
}

std::span<const std::byte> part_of(const ComparedTensor& tensor, std::int64_t first,
                                   std::int64_t count, std::int64_t width) {
  return tensor.bytes.subspan(static_cast<std::size_t>(first * width),
                              static_cast<std::size_t>(count * width));
}

// Pages of a mapped file that were read leave the process; the last one with the next part.
void let_go(std::span<const std::byte> mapped) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto into = reinterpret_cast<std::uintptr_t>(mapped.data()) % page;
  const std::size_t bytes = (into + mapped.size()) / page * page;
  std::byte* const begin = const_cast<std::byte*>(mapped.data()) - into;
  if (bytes > 0) static_cast<void>(::madvise(begin, bytes, MADV_DONTNEED));
}

// Floats in their order as whole numbers: neighbours differ by 1, -0 and 0 by nothing.
std::int64_t place_of(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits >= 0 ? bits : -std::int64_t{bits & 0x7FFFFFFF};
}

double ulps_between(float a, float b, int fraction) {
  const auto apart = static_cast<double>(std::abs(place_of(a) - place_of(b)));
  return std::ldexp(apart, std::min(fraction, 23) - 23);
}

std::vector<double> doubles_of(const ComparedType& type, std::span<const std::byte> bytes,
                               std::vector<float>& floats) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(type.bytes));
  if (type.stored == StoredFloat::kF64) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    floats.assign(values.begin(), values.end());
    return values;
  }
  floats.resize(values.size());
  to_f32(type.stored, bytes, floats);
  std::copy(floats.begin(), floats.end(), values.begin());
  return values;
}

// What two numbers have between them; equal infinities and two NaN have nothing.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::abs(a - b);
  return std::isfinite(apart) ? apart : std::numeric_limits<double>::infinity();
}

struct TypePair {
  const ComparedType& a;
  const ComparedType& b;
  double atol = 0;

  bool same_type() const { return a.stored == b.stored; }
  int fraction() const { return std::min(a.fraction, b.fraction); }
};

void add_numbers(const TypePair& types, std::span<const std::byte> a, std::span<const std::byte> b,
                 std::int64_t first, TensorDifference& sum) {
  std::vector<float> floats_a;
  std::vector<float> floats_b;
  const std::vector<double> left = doubles_of(types.a, a, floats_a);
  const std::vector<double> right = doubles_of(types.b, b, floats_b);
  const auto width = static_cast<std::size_t>(types.a.bytes);
  for (std::size_t at = 0; at < left.size(); ++at) {
    const double apart = distance(left[at], right[at]);
    const bool bits =
        types.same_type() && std::memcmp(a.data() + at * width, b.data() + at * width, width) != 0;
    const bool differs = types.atol > 0 ? apart > types.atol : apart > 0 || bits;
    if (!differs) continue;
    const std::int64_t index = first + static_cast<std::int64_t>(at);
    ++sum.elements;
    if (sum.first < 0) sum.first = index;
    if (sum.max_abs_at < 0 || apart > sum.max_abs) {
      sum.max_abs = apart;
      sum.max_abs_at = index;
    }
    const bool finite = std::isfinite(left[at]) && std::isfinite(right[at]);
    if (!finite) continue;
    const double ulps = ulps_between(floats_a[at], floats_b[at], types.fraction());
    sum.max_ulp = std::max(sum.max_ulp, ulps);
  }
}

// Of types that are no floats, or of one type each.
TensorDifference bytes_difference(const ComparedTensor& a, const ComparedTensor& b) {
  TensorDifference sum;
  const std::int64_t count = elements_of(a);
  const std::int64_t width =
      count == 0 ? 1 : std::max<std::int64_t>(1, std::ssize(a.bytes) / count);
  for (std::int64_t at = 0; at + width <= std::ssize(a.bytes); at += width) {
    const auto from = static_cast<std::size_t>(at);
    if (std::memcmp(&a.bytes[from], &b.bytes[from], static_cast<std::size_t>(width)) == 0) continue;
    ++sum.elements;
    if (sum.first < 0) sum.first = at / width;
  }
  sum.max_abs = -1;
  return sum;
}

// Elements [first, first + count) of two tensors.
struct ComparedPiece {
  std::int64_t first = 0;
  std::int64_t count = 0;
  double atol = 0;
};

void add_piece(const ComparedTensor& a, const ComparedTensor& b, const ComparedPiece& piece,
               TensorDifference& sum) {
  const TypePair types{.a = *type_of(a), .b = *type_of(b), .atol = piece.atol};
  const auto left = part_of(a, piece.first, piece.count, types.a.bytes);
  const auto right = part_of(b, piece.first, piece.count, types.b.bytes);
  const bool equal = types.same_type() && std::memcmp(left.data(), right.data(), left.size()) == 0;
  if (!equal) add_numbers(types, left, right, piece.first, sum);
}

// The same as difference_of, of tensors in mapped files.
TensorDifference difference_of_mapped(const ComparedTensor& a, const ComparedTensor& b,
                                      double atol) {
  TensorDifference sum;
  const std::int64_t count = elements_of(a);
  const bool floats = type_of(a) != nullptr && type_of(b) != nullptr;
  if (!floats) sum = bytes_difference(a, b);
  for (std::int64_t first = 0; floats && first < count; first += kPiece) {
    const std::int64_t some = std::min(kPiece, count - first);
    add_piece(a, b, {.first = first, .count = some, .atol = atol}, sum);
    let_go(part_of(a, first, some, type_of(a)->bytes));
    let_go(part_of(b, first, some, type_of(b)->bytes));
  }
  return sum;
}

std::string problem_of(const ComparedTensor& a, const ComparedTensor& b) {
  if (a.shape != b.shape) {
    return core::concat("the shapes differ: ", shape_text(a.shape), ", ", shape_text(b.shape));
  }
  const bool floats = type_of(a) != nullptr && type_of(b) != nullptr;
  if (!floats && a.dtype != b.dtype) {
    return core::concat("the types differ: ", a.dtype, ", ", b.dtype);
  }
  return "";
}

class Comparer {
 public:
  Comparer(const ComparedSide& a, const ComparedSide& b, double atol)
      : a_(a), b_(b), atol_(atol), mixed_(a.is_checkpoint() != b.is_checkpoint()) {}

  Comparison run() {
    std::set<ComparedSide::Key> keys(a_.keys().begin(), a_.keys().end());
    keys.insert(b_.keys().begin(), b_.keys().end());
    std::set<std::string> left_out;
    for (const ComparedSide::Key& key : keys) {
      if (mixed_ && key.first != "weights") {
        left_out.insert(key.first);
      } else {
        compare(key);
      }
    }
    for (const std::string& role : left_out) {
      result_.notes.push_back(role + " is only in the checkpoint");
    }
    if (mixed_) {
      result_.notes.push_back("state.json and config.json have no counterpart");
    } else {
      compare_facts();
    }
    return std::move(result_);
  }

 private:
  void compare(const ComparedSide::Key& key) {
    DifferingTensor found{.role = key.first, .name = key.second, .problem = {}};
    if (!a_.has(key) || !b_.has(key)) {
      found.problem = core::concat("only in ", (a_.has(key) ? a_ : b_).path().string());
      result_.differing.push_back(std::move(found));
      return;
    }
    const ComparedTensor a = a_.tensor(key);
    const ComparedTensor b = b_.tensor(key);
    ++result_.tensors;
    result_.elements += elements_of(a);
    found.shape = a.shape;
    found.types = a.dtype == b.dtype ? a.dtype : a.dtype + ", " + b.dtype;
    found.problem = problem_of(a, b);
    if (found.problem.empty()) found.numbers = difference_of_mapped(a, b, atol_);
    // Asked again behind the reading: whether a file was cut meanwhile.
    a_.tensor(key);
    b_.tensor(key);
    if (!found.problem.empty() || found.numbers.elements > 0) {
      result_.differing.push_back(std::move(found));
    }
  }

  // Where a state came from is told, and is no difference: paths, the run's name.
  static bool counts(const std::string& key) {
    return !key.starts_with("export") && !key.starts_with("run") && !key.starts_with("config.json");
  }

  void compare_facts() {
    std::set<std::string> keys;
    for (const auto& [key, value] : a_.facts()) keys.insert(key);
    for (const auto& [key, value] : b_.facts()) keys.insert(key);
    const auto value_of = [](const ComparedSide& side, const std::string& key) {
      const auto found = side.facts().find(key);
      return found == side.facts().end() ? std::string() : found->second;
    };
    for (const std::string& key : keys) {
      const std::string a = value_of(a_, key);
      const std::string b = value_of(b_, key);
      if (a != b) result_.facts.push_back({.key = key, .a = a, .b = b, .counts = counts(key)});
    }
  }

  const ComparedSide& a_;
  const ComparedSide& b_;
  const double atol_;
  const bool mixed_;  // a checkpoint and something else
  Comparison result_;
};

}  // namespace

bool Comparison::same() const {
  const bool facts_differ = std::any_of(facts.begin(), facts.end(),
                                        [](const DifferingFact& fact) { return fact.counts; });
  return differing.empty() && !facts_differ;
}

TensorDifference difference_of(const ComparedTensor& a, const ComparedTensor& b, double atol) {
  TensorDifference sum;
  if (type_of(a) == nullptr || type_of(b) == nullptr) return bytes_difference(a, b);
  const std::int64_t count = elements_of(a);
  for (std::int64_t first = 0; first < count; first += kPiece) {
    add_piece(a, b, {.first = first, .count = std::min(kPiece, count - first), .atol = atol}, sum);
  }
  return sum;
}

Comparison compare_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                               double atol) {
  const ComparedSide left(a);
  const ComparedSide right(b);
  return Comparer(left, right, atol).run();
}

}  // namespace fm::checkpoint

#include "text/data/packing.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "core/buffer.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::data {
namespace {

constexpr std::int64_t kLeastIds = 2;      // an id and a target
constexpr std::int64_t kWindow = 1 << 16;  // documents that are packed together

std::int64_t length_of(const TokenStream& stream, std::int64_t document) {
  return stream.begin_of(document + 1) - stream.begin_of(document);
}

class ConcatPlan : public RowPlan {
 public:
  ConcatPlan(const TokenStream& stream, std::int64_t row_ids)
      : rows_(stream.size() / row_ids), row_ids_(row_ids), dropped_(stream.size() % row_ids) {}

  std::int64_t rows() const override { return rows_; }
  void find(std::int64_t row, std::vector<Segment>& segments) const override {
    segments.assign(1, {row * row_ids_, row_ids_});
  }
  std::string describe() const override {
    return core::concat("joined and cut; last ", dropped_, " ids dropped");
  }

 private:
  std::int64_t rows_;
  std::int64_t row_ids_;
  std::int64_t dropped_;
};

// What becomes of documents that are no row as they are.
struct Losses {
  std::int64_t short_documents = 0;  // left out
  std::int64_t cut_documents = 0;
  std::int64_t cut_ids = 0;

  void count(std::int64_t length, std::int64_t row_ids) {
    if (length < kLeastIds) ++short_documents;
    if (length <= row_ids) return;
    ++cut_documents;
    cut_ids += length - row_ids;
  }
  std::string words() const {
    std::vector<std::string> parts;
    if (short_documents > 0) parts.push_back(core::concat(short_documents, " empty left out"));
    if (cut_documents > 0) {
      parts.push_back(core::concat(cut_documents, " cut by ",
                                   core::human_count(static_cast<double>(cut_ids)), " ids"));
    }
    return parts.empty() ? "none cut" : core::join(parts, ", ");
  }
};

class DocumentPlan : public RowPlan {
 public:
  DocumentPlan(const TokenStream& stream, std::int64_t row_ids)
      : stream_(stream), row_ids_(row_ids) {
    for (std::int64_t at = 0; at < stream.documents(); ++at) {
      const std::int64_t length = length_of(stream, at);
      losses_.count(length, row_ids);
      if (length < kLeastIds) short_.push_back(at - std::ssize(short_));
    }
  }

  std::int64_t rows() const override { return stream_.documents() - std::ssize(short_); }
  void find(std::int64_t row, std::vector<Segment>& segments) const override {
    // Row r is document r + k, where k short documents stand before it.
    const auto behind = std::upper_bound(short_.begin(), short_.end(), row);
    const std::int64_t document = row + (behind - short_.begin());
    segments.assign(1,
                    {stream_.begin_of(document), std::min(length_of(stream_, document), row_ids_)});
  }
  std::string describe() const override {
    return core::concat("one document each, cut or padded; ", losses_.words());
  }

 private:
  const TokenStream& stream_;
  std::int64_t row_ids_;
  std::vector<std::int64_t> short_;  // i-th short document's index, less i
  Losses losses_;
};

template <class T>
core::Buffer keep(core::Ledger& ledger, const std::vector<T>& values) {
  core::Buffer kept(ledger, core::Account::kData,
                    core::Bytes(std::ssize(values) * static_cast<std::int64_t>(sizeof(T))));
  std::copy(values.begin(), values.end(), static_cast<T*>(kept.data()));
  return kept;
}

class BestFitPlan : public RowPlan {
 public:
  BestFitPlan(const TokenStream& stream, std::int64_t row_ids, core::Ledger& ledger)
      : stream_(stream), row_ids_(row_ids) {
    FM_USER_CHECK(stream.documents() <= std::numeric_limits<std::uint32_t>::max(),
                  "--packing best_fit takes at most 2^32 documents; use concat (documents: ",
                  stream.documents(), ")");
    std::vector<std::uint32_t> documents;
    std::vector<std::int64_t> begins = {0};
    for (std::int64_t first = 0; first < stream.documents(); first += kWindow) {
      pack(first, std::min(first + kWindow, stream.documents()), documents, begins);
    }
    rows_ = std::ssize(begins) - 1;
    documents_ = keep(ledger, documents);
    begins_ = keep(ledger, begins);
  }

  std::int64_t rows() const override { return rows_; }
  void find(std::int64_t row, std::vector<Segment>& segments) const override {
    const auto* const begins = static_cast<const std::int64_t*>(begins_.data());
    const auto* const documents = static_cast<const std::uint32_t*>(documents_.data());
    segments.clear();
    for (std::int64_t at = begins[row]; at < begins[row + 1]; ++at) {
      const std::int64_t document = documents[at];
      segments.push_back({stream_.begin_of(document), taken(document)});
    }
  }
  std::string describe() const override {
    const auto places = static_cast<double>(std::max<std::int64_t>(1, rows_ * row_ids_));
    const auto tenths = static_cast<std::int64_t>(1000.0 * static_cast<double>(filled_) / places);
    return core::concat("whole documents, ", tenths / 10, '.', tenths % 10, " % full; ",
                        losses_.words());
  }

 private:
  std::int64_t taken(std::int64_t document) const {
    return std::min(length_of(stream_, document), row_ids_);
  }

  // Documents [first, last) into rows of their own.
  void pack(std::int64_t first, std::int64_t last, std::vector<std::uint32_t>& documents,
            std::vector<std::int64_t>& begins) {
    std::vector<std::uint32_t> order;
    for (std::int64_t at = first; at < last; ++at) {
      const std::int64_t length = length_of(stream_, at);
      losses_.count(length, row_ids_);
      if (length >= kLeastIds) order.push_back(static_cast<std::uint32_t>(at));
    }
    std::ranges::stable_sort(order, std::greater(), [&](std::uint32_t at) { return taken(at); });
    std::vector<std::vector<std::uint32_t>> rows;
    std::multimap<std::int64_t, std::size_t> by_room;  // ids that a row has room for -> row
    for (const std::uint32_t document : order) {
      const std::int64_t length = taken(document);
      filled_ += length;
      const auto tightest = by_room.lower_bound(length);
      const bool opens = tightest == by_room.end();
      const std::size_t row = opens ? rows.size() : tightest->second;
      const std::int64_t room = (opens ? row_ids_ : tightest->first) - length;
      if (opens) {
        rows.emplace_back();
      } else {
        by_room.erase(tightest);
      }
      rows[row].push_back(document);
      if (room >= kLeastIds) by_room.emplace(room, row);
    }
    for (const std::vector<std::uint32_t>& row : rows) {
      documents.insert(documents.end(), row.begin(), row.end());
      begins.push_back(std::ssize(documents));
    }
  }

  const TokenStream& stream_;
  std::int64_t row_ids_;
  core::Buffer documents_;  // [documents] uint32, row after row
  core::Buffer begins_;     // [rows + 1] int64: of each row in documents_
  std::int64_t rows_ = 0;
  std::int64_t filled_ = 0;  // ids in all rows
  Losses losses_;
};

}  // namespace

std::unique_ptr<RowPlan> make_row_plan(const TokenStream& stream, Packing packing,
                                       std::int64_t row_ids, core::Ledger& ledger) {
  switch (packing) {
    case Packing::kOneDocument: return std::make_unique<DocumentPlan>(stream, row_ids);
    case Packing::kBestFit: return std::make_unique<BestFitPlan>(stream, row_ids, ledger);
    case Packing::kConcat: break;
  }
  return std::make_unique<ConcatPlan>(stream, row_ids);
}

}  // namespace fm::data

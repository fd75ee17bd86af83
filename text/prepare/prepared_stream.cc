#include "text/prepare/prepared_stream.h"

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/files/durable_file.h"
#include "core/files/files.h"
#include "core/text.h"
#include "text/data/formats/megatron.h"

namespace fm::prepare {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 2;  // 1 had no sums of the parts

// All parts, under the name of the text: how many parts there are follows from the ranks that
// made them.
class PreparedStream final : public data::TokenStream {
 public:
  PreparedStream(data::StreamPtr parts, std::int32_t filler, std::string description,
                 std::string fingerprint)
      : parts_(std::move(parts)),
        filler_(filler),
        description_(std::move(description)),
        fingerprint_(std::move(fingerprint)) {}

  std::int64_t size() const override { return parts_->size(); }
  std::int64_t documents() const override { return parts_->documents(); }
  std::int64_t begin_of(std::int64_t index) const override { return parts_->begin_of(index); }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    parts_->read(first, ids);
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    parts_->read_labels(first, labels);
  }
  bool ignores_some() const override { return parts_->ignores_some(); }
  std::int32_t filler() const override { return filler_; }
  std::string describe() const override { return description_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  data::StreamPtr parts_;
  std::int32_t filler_;
  std::string description_;
  std::string fingerprint_;
};

}  // namespace

PartCounts Prepared::total() const {
  PartCounts all;
  for (const PartCounts& part : parts) {
    all.documents += part.documents;
    all.ids += part.ids;
    all.counted += part.counted;
  }
  return all;
}

std::string part_name(std::size_t part) {
  const std::string number = std::to_string(part);
  return "part-" + std::string(number.size() < 5 ? 5 - number.size() : 0, '0') + number;
}

std::string content_of_part(const fs::path& prefix, std::int64_t vocab) {
  return data::open_megatron(prefix.string(), {.vocab = vocab})->fingerprint();
}

void write_prepared(const fs::path& folder, const Prepared& prepared) {
  json parts = json::array();
  for (const PartCounts& part : prepared.parts) {
    parts.push_back({{"documents", part.documents},
                     {"ids", part.ids},
                     {"counted", part.counted},
                     {"labels", part.labels},
                     {"content", part.content}});
  }
  const json text = {{"version", kVersion},
                     {"source", prepared.source},
                     {"recipe", prepared.recipe},
                     {"identity", prepared.identity},
                     {"parts", parts},
                     {"bad_lines", prepared.bad_lines},
                     {"first_bad", prepared.first_bad},
                     {"filler", prepared.filler},
                     {"unused", prepared.unused}};
  // Names of files need not be UTF-8.
  core::write_new_file(folder / kPreparedFile,
                       text.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

Prepared read_prepared(const fs::path& folder) {
  const fs::path path = folder / kPreparedFile;
  const core::SmallFile file = core::read_small_file(path, core::kMostListing);
  FM_DATA_CHECK(file.problem.empty(), path.string(), ": it must be readable; delete the folder, ",
                "it is made again (", file.problem, ")");
  FM_DATA_CHECK(core::is_shallow(file.text), path.string(), ": at most ", core::kMostBrackets,
                " levels of brackets are possible; delete the folder, it is made again");
  try {
    const json at = json::parse(file.text);
    FM_DATA_CHECK(at.at("version").get<int>() == kVersion, path.string(), ": version ", kVersion,
                  " is required; delete the folder, it is made again (", at.at("version").dump(),
                  ")");
    Prepared out{.source = at.at("source").get<std::string>(),
                 .recipe = at.at("recipe").get<std::string>(),
                 .identity = at.at("identity").get<std::string>(),
                 .parts = {},
                 .bad_lines = at.at("bad_lines").get<std::int64_t>(),
                 .first_bad = at.at("first_bad").get<std::string>(),
                 .filler = at.at("filler").get<std::int32_t>(),
                 .unused = at.at("unused").get<data::UnusedFields>()};
    for (const json& part : at.at("parts")) {
      out.parts.push_back({.documents = part.at("documents").get<std::int64_t>(),
                           .ids = part.at("ids").get<std::int64_t>(),
                           .counted = part.at("counted").get<std::int64_t>(),
                           .labels = part.at("labels").get<std::int64_t>(),
                           .content = part.at("content").get<std::string>()});
    }
    return out;
  } catch (const json::exception& error) {
    FM_DATA_CHECK(false, path.string(), ": it must be as it was written; delete the folder, it is ",
                  "made again (", error.what(), ")");
  }
}

namespace {

data::StreamPtr open_part(const fs::path& prefix, const PartCounts& part, std::int64_t vocab) {
  std::string found;
  data::StreamPtr stream;
  try {
    stream = data::open_megatron(prefix.string(), {.vocab = vocab});
    found = stream->fingerprint();
  } catch (const core::UserError& error) {
    found = error.what();
  }
  FM_DATA_CHECK(found == part.content, prefix.string(), ".bin: prepared text must be as it was ",
                "written, with what lies beside it; delete the folder, it is made again (",
                part.content, " was written, now: ", found, ")");
  return stream;
}

}  // namespace

data::StreamPtr open_prepared(const fs::path& folder, const std::string& path,
                              const std::string& tokens, std::int64_t vocab) {
  const Prepared prepared = read_prepared(folder);
  std::vector<data::StreamPtr> parts;
  for (std::size_t part = 0; part < prepared.parts.size(); ++part) {
    if (prepared.parts[part].documents == 0) continue;
    parts.push_back(open_part(folder / part_name(part), prepared.parts[part], vocab));
  }
  FM_DATA_CHECK(!parts.empty(), path, ":1: at least one document is required; give a file ",
                "with some (", core::counted(prepared.bad_lines, "bad line"), ")");
  const PartCounts all = prepared.total();
  const auto human = [](std::int64_t count) {
    return core::human_count(static_cast<double>(count));
  };
  std::string description = core::concat(path, ": ", core::counted(all.documents, "document"), ", ",
                                         human(all.ids), ' ', tokens);
  if (all.counted < all.ids) description += core::concat(", ", human(all.counted), " trained on");
  return std::make_shared<PreparedStream>(data::join_streams(std::move(parts)), prepared.filler,
                                          description, "text " + prepared.identity);
}

}  // namespace fm::prepare

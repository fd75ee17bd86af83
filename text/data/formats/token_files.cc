#include "text/data/formats/token_files.h"

#include <utility>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/text.h"
#include "text/data/formats/token_types.h"
#include "text/data/id_array.h"

namespace fm::data {
namespace {

class FlatFile : public TokenStream {
 public:
  FlatFile(MappedIds ids, TokenForm form, std::int64_t vocab) : ids_(std::move(ids)), form_(form) {
    const std::span<const std::byte> file = ids_.file().bytes();
    const auto head = file.first(static_cast<std::size_t>(ids_.ids().bytes().data() - file.data()));
    const std::uint32_t crc =
        ids_.check(vocab, core::crc32c(head),
                   "check that file and model belong together, or name the type of its ids with "
                   "--token_dtype");
    fingerprint_ = core::concat(kind(), " bytes=", file.size(), " crc32c=", crc);
  }

  std::int64_t size() const override { return ids_.ids().size(); }
  std::int64_t documents() const override { return 0; }
  std::int64_t begin_of(std::int64_t) const override { return 0; }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    ids_.read(first, ids);
  }
  std::string describe() const override {
    return core::concat(ids_.path(), ": ", core::human_count(static_cast<double>(size())), ' ',
                        name_of(ids_.ids().type()), " tokens", words_of(form_));
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  static std::string_view words_of(TokenForm form) {
    switch (form) {
      case TokenForm::kFlat: return "";
      case TokenForm::kNpy: return " (.npy)";
      case TokenForm::kLlmC: return " (llm.c)";
    }
    return "";
  }

  // "tokens_i32" of a flat file of int32, as in the checkpoints of older builds.
  std::string kind() const {
    const TokenType type = ids_.ids().type();
    std::string plain =
        type == TokenType::kI32 ? "tokens_i32" : core::concat("tokens_", name_of(type));
    switch (form_) {
      case TokenForm::kFlat: return plain;
      case TokenForm::kNpy: return plain + "_npy";
      case TokenForm::kLlmC: return plain + "_llm.c";
    }
    return plain;
  }

  MappedIds ids_;
  TokenForm form_;
  std::string fingerprint_;
};

}  // namespace

StreamPtr open_tokens(const std::string& path, const SourceOptions& options) {
  core::MappedFile file(path);
  const TokenLayout layout = layout_of(file.bytes(), options.token_type, options.vocab, path);
  const auto bytes = file.bytes().subspan(
      layout.begin, static_cast<std::size_t>(layout.count) * size_of(layout.type));
  return std::make_shared<FlatFile>(MappedIds(std::move(file), path, bytes, layout.type),
                                    layout.form, options.vocab);
}

}  // namespace fm::data

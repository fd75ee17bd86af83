#include "text/prepare/plain_recipes.h"

#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::prepare {
namespace {

ReadLine one_document(data::LineReader read) {
  return [read = std::move(read)](std::string_view line, std::vector<data::Document>& documents) {
    documents.resize(1);
    documents.front() = {};
    return read(line, documents.front());
  };
}

}  // namespace

Recipe id_recipe(std::int64_t vocab) {
  return {.read_line = one_document(data::ids_reader(vocab)),
          .words = core::concat("input_ids, vocab_size ", vocab),
          .tokens = "tokens (input_ids)",
          .vocab = vocab};
}

Recipe byte_recipe(const std::string& field) {
  return {.read_line = one_document(data::text_reader(field)),
          .words = core::concat("bytes, field ", field),
          .tokens = "byte tokens",
          .vocab = core::kByteVocab,
          .filler = core::kPadId,
          .eos = core::kEosId};
}

}  // namespace fm::prepare

#include "text/prepare/answer_rows.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "core/check.h"
#include "core/text.h"
#include "text/chat/conversation.h"
#include "text/data/data_paths.h"
#include "text/data/documents.h"
#include "text/data/formats/mds_index.h"
#include "text/jinja/json_text.h"
#include "text/prepare/line_batches.h"
#include "text/prepare/renamed_row.h"

namespace fm::prepare {
namespace {

// Null for a line that is none.
std::optional<jinja::Value> object_of(const std::string& line) {
  try {
    jinja::Value value = jinja::parse_json(line, "");
    if (value.dict() != nullptr) return value;
  } catch (const core::UserError&) {  // who prepares the line says what is wrong
  }
  return std::nullopt;
}

// The first row of a file that is an object, of the first ones.
std::optional<std::string> first_object(const data::DataFile& file) {
  constexpr int kBatches = 100;
  LineBatches batches({.path = file.path, .rows = file.rows});
  std::string batch;
  for (int at = 0; at < kBatches && batches.next(1, batch); ++at) {
    for (std::string& line : core::split(batch, '\n')) {
      if (object_of(line)) return std::move(line);
    }
  }
  return std::nullopt;
}

// The row with the names that its columns mean; nothing where they do not fit.
std::optional<jinja::Value> meant_row(const std::string& line, const data::Columns& columns) {
  std::optional<jinja::Value> row = object_of(line);
  if (row && !rename_columns(columns, *row).empty()) row.reset();
  return row;
}

// In the order in which a line's fields count (text/prepare/text_recipe.h).
bool is_answer(const jinja::Value& line, const TextOptions& options) {
  const bool has_text = chat::find_field(line, options.text_field) != nullptr;
  const std::optional<chat::Form> form = chat::form_of(line);
  if (form) return !has_text || (!options.text_first && chat::is_filled(line, *form));
  return !has_text && chat::find_field(line, "segments") != nullptr;
}

bool masks_some(const std::string& line, const data::Columns& columns) {
  data::Document document;
  const std::string problem =
      data::ids_reader(std::numeric_limits<std::int32_t>::max(), columns)(line, document);
  return problem.empty() && std::ranges::count(document.labels, data::kIgnored) > 0;
}

// False of a file that is not there, as a plan's data need not be.
bool holds_answers(const data::DataFile& file, const data::Columns& columns,
                   const TextOptions& options) {
  using data::DataFormat;
  std::error_code ignored;
  switch (file.format) {
    case DataFormat::kJsonl:
    case DataFormat::kJsonlIds: {
      if (!std::filesystem::is_regular_file(file.path, ignored)) return false;
      const std::optional<std::string> line = first_object(file);
      if (!line) return false;
      if (file.format == DataFormat::kJsonlIds) return masks_some(*line, columns);
      const std::optional<jinja::Value> row = meant_row(*line, columns);
      return row && is_answer(*row, options);
    }
    case DataFormat::kMegatron: {
      const bool named = file.path.ends_with(".bin") || file.path.ends_with(".idx");
      const std::string prefix = file.path.substr(0, file.path.size() - (named ? 4 : 0));
      return std::filesystem::exists(prefix + ".counted", ignored);
    }
    case DataFormat::kMds: {
      if (!std::filesystem::exists(file.path + "/index.json", ignored)) return false;
      const auto shards = data::read_mds_index(file.path, data::TokenType::kAuto);
      return !shards.empty() && !shards.front().columns.others.empty();
    }
    case DataFormat::kTokens:
    case DataFormat::kAuto:
    case DataFormat::kRows:
    case DataFormat::kText:
    case DataFormat::kCsv:
    case DataFormat::kTsv:
    case DataFormat::kParquet:
    case DataFormat::kArrow: break;
  }
  return false;
}

}  // namespace

bool holds_answers(std::span<const std::string> words, data::DataFormat format,
                   const data::RowOptions& rows, const TextOptions& options) {
  for (const data::DataPart& part : data::find_data(words, format, rows)) {
    for (const data::DataFile& file : part.files) {
      if (!holds_answers(file, rows.columns, options)) return false;
    }
  }
  return true;
}

bool begins_with_chat(std::span<const std::string> words, data::DataFormat format,
                      const data::RowOptions& rows) {
  const std::vector<data::DataPart> parts = data::find_data(words, format, rows);
  const data::DataFile& file = parts.front().files.front();
  if (file.format != data::DataFormat::kJsonl) return false;
  const std::optional<std::string> line = first_object(file);
  if (!line) return false;
  const std::optional<jinja::Value> row = meant_row(*line, rows.columns);
  if (!row) return false;
  const std::optional<chat::Form> form = chat::form_of(*row);
  return form == chat::Form::kMessages || form == chat::Form::kConversations;
}

}  // namespace fm::prepare

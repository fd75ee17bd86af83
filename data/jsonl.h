// JSON Lines: one object per line, one string field of it is a document.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace fm::data {

// The next piece of a text, wherever it is cut; empty at the end. Valid until the next call.
using NextPiece = std::function<std::string_view()>;

// Calls `on_document` with field `field` (its UTF-8 text) of every line of the text, in order.
// Lines end with \n or \r\n; blank lines are skipped. UserError (11) says `file_name`:line for a
// line that is no JSON object, is not UTF-8, lacks the field, has it twice or not as a string, and
// for a file without documents. The view given to `on_document` lives for that call only.
void read_jsonl(const NextPiece& next_piece, const std::string& file_name, std::string_view field,
                const std::function<void(std::string_view)>& on_document);

}  // namespace fm::data

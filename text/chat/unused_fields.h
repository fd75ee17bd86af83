// What of a line has no effect on its text and on what is trained, so that it can be said.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/conversation.h"
#include "text/chat/model_folder.h"

namespace fm::chat {

// The fields of an object that are neither empty nor among those that are read.
std::vector<std::string> unused_fields(const jinja::Value& line,
                                       std::span<const std::string_view> read);

// The same of a line of one of the forms, and of its messages: "meta", "messages[].id". Each once.
// A field of a message counts as read where its name stands in the template.
std::vector<std::string> unused_fields(const jinja::Value& line, Form form,
                                       const ChatFormat* format);

}  // namespace fm::chat

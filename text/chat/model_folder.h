// The chat template of a model folder, with what it sees besides the conversation.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/files/file_texts.h"
#include "text/jinja/template.h"

namespace fm::chat {

struct ChatFormat {
  jinja::Template plain;
  std::optional<jinja::Template>
      with_tools;         // the template named tool_use, where a folder has several
  jinja::Entries tokens;  // bos_token, eos_token, ...: variables of the template
  // Texts that the tokenizer never cuts, which answers begin and end at.
  std::vector<std::string> added_tokens;
};

// Of chat_template.jinja and additional_chat_templates/, else of tokenizer_config.json's
// chat_template, as transformers reads them. nullopt: the folder has no template. Throws UserError
// (11) for a file that is no template or no JSON. `texts` are those of files of the folder that
// count instead of what is on the disk.
std::optional<ChatFormat> read_chat_format(const std::filesystem::path& folder,
                                           const core::FileTexts& texts = {});
// The same with the template of a file.
ChatFormat read_chat_format(const std::filesystem::path& folder,
                            const std::filesystem::path& template_file,
                            const core::FileTexts& texts = {});

}  // namespace fm::chat

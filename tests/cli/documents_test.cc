// What docs/ lists is what the programs have.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "cli/flags/flags.h"
#include "cli/foreign/foreign_keys.h"
#include "core/exit_codes.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using Words = std::set<std::string>;

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(FM_CONFIGS) / ".." / path).rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

// The first group of every match.
Words matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  Words found;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    found.insert((*at)[1].str());
  }
  return found;
}

// The part of a document from one heading to the next of the same level.
std::string section(const std::string& text, const std::string& heading) {
  const std::size_t first = text.find("## " + heading + "\n");
  EXPECT_NE(first, std::string::npos) << heading;
  return text.substr(first, text.find("\n## ", first) - first);
}

TEST(Documents, SwitchesHasEveryFlagAndNoOther) {
  const std::string text = read_text("docs/switches.md");
  const std::string train = text.substr(0, text.find("\n## fmengine-generate"));
  Words flags = {"help", "version"};
  for (const FlagRow& row : train_flags()) flags.insert(row.name);
  for (const ForeignKey& key : trainer_keys()) {  // those that are ours under another name
    if (!key.map.starts_with("*: --") || key.names.find('[') != key.names.npos) continue;
    for (const std::string& name : core::split(key.names, ' ')) flags.insert(name);
  }
  flags.insert("resume_from_checkpoint");
  EXPECT_EQ(matches(train, "`--([a-z0-9_]+)`"), flags);
}

// Words in lines of at most `most` columns.
std::string wrapped(const std::string& text, const std::string& indent, std::size_t most = 100) {
  std::string out;
  std::string line = indent;
  for (const std::string& word : core::split(text, ' ')) {
    const bool first = line.size() == indent.size();
    if (!first && line.size() + 1 + word.size() > most) {
      out += line + "\n";
      line = indent + word;
    } else {
      line += (first ? "" : " ") + word;
    }
  }
  return out + line + "\n";
}

std::string listed(std::span<const ForeignKey> keys) {
  std::string text = "\n```\n";
  for (const ForeignKey& key : keys) {
    text += wrapped(std::string(key.names), "") + wrapped(describe(key), "    ");
  }
  return text + "```\n";
}

// Its tables are those of the code, in the order of the code.
TEST(Documents, MigrationHasEveryNameOfOtherPrograms) {
  const std::string text = read_text("docs/migration.md");
  const std::string parts[] = {listed(trainer_keys()), listed(axolotl_keys()),
                               listed(factory_keys()), listed(parallel_keys())};
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), text.npos) << "docs/migration.md must have these lines:" << part;
  }
}

TEST(Documents, SwitchesHasTheDefaults) {
  const std::string text = read_text("docs/switches.md");
  for (const FlagRow& row : train_flags()) {
    const std::string start = std::string("\n| `--") + row.name + "` | ";
    const std::size_t at = text.find(start);
    if (at == std::string::npos) continue;  // flags in sentences
    const std::string cell =
        text.substr(at + start.size(), text.find('|', at + start.size()) - at - start.size());
    const std::string written = std::string(row.otherwise) + (row.otherwise[0] == 0 ? "" : " ");
    if (std::string_view(row.name) == "init_ckpt") continue;  // FMEngine's, which is not here
    EXPECT_EQ(cell, written) << row.name;
  }
}

TEST(Documents, SwitchesHasEveryVariableAndNoOther) {
  Words names;
  for (const VariableRow& row : train_variables()) names.insert(row.name);
  const std::string text = section(read_text("docs/switches.md"), "Environment variables");
  EXPECT_EQ(matches(text, "\n\\| `([A-Z_]+)` "), names);
}

// The enumeration's text, from whichever header of core/ has it.
std::string exit_codes() {
  std::string found;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(FM_CONFIGS) / "../core")) {
    if (!entry.is_regular_file()) continue;
    const std::string text = read_text("core/" + entry.path().filename().string());
    const std::size_t first = text.find("enum class ExitCode");
    if (first != std::string::npos) found = text.substr(first, text.find("};", first) - first);
  }
  return found;
}

// The codes of a second signal are those of the system.
TEST(Documents, ExitCodesHasEveryCodeAndNoOther) {
  Words codes = matches(exit_codes(), " = ([0-9]+),");
  EXPECT_GE(codes.size(), 14U);
  codes.insert({"130", "143"});
  EXPECT_EQ(matches(read_text("docs/exit-codes.md"), "\n\\| ([0-9]+) "), codes);
}

TEST(Documents, ExitCodesHasTheRowsOfTheCode) {
  std::string rows = "\n| code | class | meaning | what to do |\n|---|---|---|---|\n";
  std::vector<std::string> permanent;
  for (const core::ExitCodeRow& row : core::exit_code_rows()) {
    const std::string advice = *row.advice == 0 ? "" : core::concat(row.advice, " ");
    rows += core::concat("| ", row.code, " | ", core::name_of(row.kind), " | ", row.meaning, " | ",
                         advice, "|\n");
    if (row.kind == core::ExitClass::kPermanent) permanent.push_back(std::to_string(row.code));
  }
  const std::string text = read_text("docs/exit-codes.md");
  EXPECT_NE(text.find(rows + "\n"), text.npos) << "docs/exit-codes.md must have:" << rows;
  const std::string policy = "onExitCodes: {operator: In, values: [" + core::join(permanent, ", ");
  EXPECT_NE(text.find(policy + "]}"), text.npos) << policy;
}

}  // namespace
}  // namespace fm::cli

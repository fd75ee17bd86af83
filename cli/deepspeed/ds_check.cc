#include "cli/deepspeed/ds_check.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "cli/deepspeed/ds_config_keys.h"
#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

enum class Notes : std::uint8_t { kShown, kQuiet };

void add(std::vector<Finding>& findings, const std::string& why, const std::string& what) {
  const auto same = std::find_if(findings.begin(), findings.end(),
                                 [&](const Finding& each) { return each.why == why; });
  if (same != findings.end()) {
    same->what.push_back(what);
  } else {
    findings.push_back({why, {what}});
  }
}

// On when `enabled` is true anywhere inside, or when there is content and no `enabled` at all.
bool holds_enabled(const JsonTree& block) {
  return std::any_of(block.members.begin(), block.members.end(),
                     [](const JsonTree::Member& member) {
                       return member.key == "enabled" || holds_enabled(member.value);
                     });
}
bool enables(const JsonTree& block) {
  return std::any_of(
      block.members.begin(), block.members.end(), [](const JsonTree::Member& member) {
        return (member.key == "enabled" && to_bool(member.value) == true) || enables(member.value);
      });
}
bool switched_on(const JsonTree& block) {
  return holds_enabled(block) ? enables(block) : !block.members.empty();
}

bool changes_nothing(const KeyRow& row, const JsonTree& value) {
  if (row.type == KeyType::kSwitch) return !switched_on(value);
  return is_plain(row, value);
}

std::string below(const std::string& path, const std::string& key) {
  return path.empty() ? key : core::concat(path, ".", key);
}

class Walk {
 public:
  Walk(const std::string& name, PrecisionFlag precision, Unknown unknown, Findings& findings)
      : name_(name), precision_(precision), unknown_(unknown), findings_(findings) {}

  void block(JsonTree& object, const std::string& path, Notes notes) {
    for (JsonTree::Member& member : object.members) {
      findings_.collect(name_, [&] { key(member, path, notes); });
    }
  }

 private:
  std::string where(const JsonTree& value) const { return core::concat(name_, ":", value.line); }

  void key(JsonTree::Member& member, const std::string& path, Notes notes) {
    const std::string full = below(path, member.key);
    const KeyRow* row = find_key(full);
    check_name(member.key, member.value, row);
    if (row != nullptr) {
      visit(*row, member.value, full, notes);
    } else {
      unknown(member.key, member.value, path);
    }
  }

  // `row` is of the path, in which the dots of a name look like blocks.
  void check_name(const std::string& name, const JsonTree& value, const KeyRow* row) const {
    const std::vector<std::string> parts = core::split(name, '.');
    FM_USER_CHECK(row == nullptr || parts.size() == 1, "\"", name,
                  "\" is one name with a dot in it, which DeepSpeed does not read; write \"",
                  core::join(parts, "\": {\""), "\": ...", std::string(parts.size() - 1, '}'), " (",
                  where(value), ")");
  }

  // DeepSpeed hands params on as they are, and there None is not the default of a number.
  void check_null(const KeyRow& row, const std::string& path, const JsonTree& value) const {
    const bool handed_on =
        row.path.starts_with("optimizer.params.") || row.path.starts_with("scheduler.params.");
    if (handed_on && !is_plain(row, value)) check_type(row, path, value, where(value));
  }

  void visit(const KeyRow& row, JsonTree& value, const std::string& path, Notes notes) {
    const bool bare_zero = path == "zero_optimization" && value.kind == JsonKind::kBool;
    if (is_auto(value)) return takes_default(row, path);
    if (value.kind == JsonKind::kNull) return check_null(row, path, value);
    if (bare_zero) return;
    try {
      check_type(row, path, value, where(value));
    } catch (const core::UserError&) {
      value.kind = JsonKind::kNull;  // nobody else stumbles over it
      throw;
    }
    const bool is_block = row.type == KeyType::kBlock || row.type == KeyType::kOpen;
    if (is_block && row.verdict != Verdict::kRefused) {
      block(value, path, says_all(path, value) ? notes : Notes::kQuiet);
      return;
    }
    judge(row, value, path, notes);
    if (is_block) block(value, path, Notes::kQuiet);
  }

  // Below a switch that is off, or that nobody asks, only the switch itself is worth a note.
  static bool says_all(const std::string& path, const JsonTree& value) {
    if (find_key(path + ".device") != nullptr) {
      const JsonTree* const device = find_path(value, "device");
      return device != nullptr && device->kind == JsonKind::kString &&
             core::lower(device->text) != "none" && !is_auto(*device);
    }
    const KeyRow* enabled = find_key(path + ".enabled");
    return enabled == nullptr || (enabled->verdict != Verdict::kIgnored && switched_on(value));
  }

  // As in DeepSpeed. Batch sizes, lr, types and schedules have notes of their own.
  void takes_default(const KeyRow& row, const std::string& path) {
    const bool obeyed = row.verdict != Verdict::kIgnored && row.verdict != Verdict::kRefused;
    const bool told = path.starts_with("scheduler.") || path.ends_with(".lr") ||
                      path.ends_with(".type") || path.find("batch_size") != std::string::npos ||
                      path.starts_with("gradient_accumulation");
    if (!obeyed || told) return;
    const std::string value(row.plain.substr(0, row.plain.find('|')));
    findings_.defaults.push_back(value.empty() ? path : core::concat(path, " (", value, ")"));
  }

  void judge(const KeyRow& row, const JsonTree& value, const std::string& path, Notes notes) {
    if (changes_nothing(row, value)) return;
    const bool is_switch = row.type == KeyType::kSwitch;
    const std::string what = core::concat(path, is_switch ? "" : " = " + show(value));
    switch (row.verdict) {
      case Verdict::kHonoured: return;
      case Verdict::kIgnored:
        if (notes == Notes::kShown || path.ends_with(".enabled") || row.type == KeyType::kSwitch) {
          add(findings_.ignored, std::string(row.why), path);
        }
        return;
      case Verdict::kRefused: findings_.refuse(value.line, what, std::string(row.why)); return;
      case Verdict::kPrecision: judge_precision(row, value, what); return;
      case Verdict::kElement:
        if (!asks_for_the_same(row, value)) overrides(value, what);
        return;
    }
  }

  // What --precision asks for.
  bool asks_for_the_same(const KeyRow& row, const JsonTree& value) const {
    const std::string_view block = row.path.substr(0, row.path.find('.'));
    return precision_ && precision_ == dtype_named(row.type == KeyType::kBool ? block : value.text);
  }

  void overrides(const JsonTree& value, const std::string& what) {
    if (!precision_) return;
    findings_.notes.push_back(core::concat("--precision ", core::name_of(*precision_),
                                           " overrides ", what, " (line ", value.line, ")"));
  }

  void judge_precision(const KeyRow& row, const JsonTree& value, const std::string& what) {
    if (precision_) return overrides(value, what);
    findings_.refuse(value.line, what,
                     std::string(row.why) + "; remove it, or give --precision bf16, fp16 or fp32");
  }

  // DeepSpeed refuses an unknown key in a block that it models, and drops it elsewhere.
  void unknown(const std::string& key, const JsonTree& value, const std::string& path) {
    const KeyRow* parent = path.empty() ? nullptr : find_key(path);
    const bool modelled = parent != nullptr && parent->type == KeyType::kBlock;
    const bool with_type = path.ends_with(".params");  // check_params does it
    const std::vector<std::string> known = keys_below(path);
    const bool typo = !with_type && !core::misspelt(key, known).empty();
    const std::string advice = advise(key, known);
    const bool refused = unknown_ == Unknown::kRefused && (modelled || typo);
    FM_USER_CHECK(!refused, "\"", key, "\" is not a key of ", path.empty() ? "the top level" : path,
                  "; ", advice.empty() ? "remove it" : advice, " (", where(value),
                  modelled ? ": extra inputs are not permitted" : ": it would have no effect",
                  "; --lenient makes it a note)");
    findings_.notes.push_back(core::concat("unknown key \"", below(path, key), "\" has no effect",
                                           advice.empty() ? "" : "; ", advice, " (", where(value),
                                           ")"));
  }

  static std::string advise(const std::string& key, const std::vector<std::string>& known) {
    const std::optional<std::string> block = block_of(key);
    if (block) return "it belongs to " + (block->empty() ? "the top level" : *block);
    const std::string near = core::nearest(key, known);
    return near.empty() ? "" : "did you mean \"" + near + "\"?";
  }

  const std::string& name_;
  const PrecisionFlag precision_;
  const Unknown unknown_;
  Findings& findings_;
};

void check_deprecated(const JsonView& settings, Findings& findings) {
  for (const DeprecatedKey& key : deprecated_keys()) {
    const std::string old_path(key.old_path);
    const std::string new_path(key.new_path);
    const JsonTree* old_value = settings.get(old_path);
    if (old_value == nullptr) continue;
    // Two names of a block that is off under both are no conflict.
    const bool both_off = old_value->is_object() && !settings.flag(old_path + ".enabled", false) &&
                          !settings.flag(new_path + ".enabled", false);
    FM_USER_CHECK(both_off || settings.get(new_path) == nullptr,
                  "Cannot provide deprecated parameter '", old_path, "' and replacing parameter '",
                  new_path, "' together; remove the first (", settings.where(old_path), ")");
    findings.notes.push_back(core::concat("\"", old_path, "\" is deprecated, use \"", new_path,
                                          "\" (", settings.where(old_path), ")"));
  }
}

}  // namespace

const JsonTree* JsonView::raw(const std::string& path) const { return find_path(root_, path); }

const JsonTree* JsonView::get(const std::string& path) const {
  const JsonTree* value = raw(path);
  const bool nothing = value == nullptr || value->kind == JsonKind::kNull || is_auto(*value);
  return nothing ? nullptr : value;
}

bool JsonView::asks_auto(const std::string& path) const {
  const JsonTree* value = raw(path);
  return value != nullptr && is_auto(*value);
}

std::string JsonView::where(const std::string& path) const {
  const JsonTree* value = raw(path);
  return value == nullptr ? name_ : core::concat(name_, ":", value->line);
}

int JsonView::line(const std::string& path) const {
  const JsonTree* value = raw(path);
  return value == nullptr ? 0 : static_cast<int>(value->line);
}

bool JsonView::flag(const std::string& path, bool otherwise) const {
  const JsonTree* value = get(path);
  return value == nullptr ? otherwise : to_bool(*value).value_or(otherwise);
}

double JsonView::number(const std::string& path, double otherwise) const {
  const JsonTree* value = get(path);
  return value == nullptr ? otherwise : to_number(sole(*value)).value_or(otherwise);
}

std::int64_t JsonView::integer(const std::string& path, std::int64_t otherwise) const {
  const JsonTree* value = get(path);
  return value == nullptr ? otherwise : to_int(*value).value_or(otherwise);
}

std::string JsonView::text(const std::string& path, const std::string& otherwise) const {
  const JsonTree* value = get(path);
  return value == nullptr ? otherwise : value->text;
}

void Findings::refuse(int line, const std::string& what, const std::string& why) {
  problems.push_back({line, core::concat(what, ": ", why)});
}

void Findings::collect(const std::string& name, const std::function<void()>& read) {
  try {
    read();
  } catch (const core::UserError& error) {
    if (error.code() != core::ExitCode::kConfigError) throw;
    // "... (t.json:12: 5)" is of line 12, and becomes "... (5)".
    std::string text = error.what();
    Problem problem;
    const std::string place = core::concat("(", name, ":");
    if (const std::size_t at = text.rfind(place); at != std::string::npos) {
      const char* const digits = text.data() + at + place.size();
      const char* const end = std::from_chars(digits, text.data() + text.size(), problem.line).ptr;
      const auto behind = static_cast<std::size_t>(end - text.data());
      const bool alone = text.compare(behind, 1, ")") == 0;
      const std::size_t first = alone ? at - (at > 0 ? 1 : 0) : at + 1;
      const std::size_t next = behind + (alone ? 1 : text.compare(behind, 2, ": ") == 0 ? 2 : 0);
      if (problem.line > 0) text.erase(first, next - first);
    }
    problem.text = std::move(text);
    problems.push_back(std::move(problem));
  }
}

void check_settings(JsonTree& root, const std::string& name, PrecisionFlag precision,
                    Unknown unknown, Findings& findings) {
  Walk walk(name, precision, unknown, findings);
  walk.block(root, "", Notes::kShown);
  findings.collect(name, [&] { check_deprecated(JsonView(root, name), findings); });
}

void throw_problems(const Findings& findings, const std::string& name) {
  std::vector<Problem> problems = findings.problems;
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  std::string lines;
  for (const Problem& each : problems) {
    const std::string place = each.line > 0 ? core::concat(name, ":", each.line) : name;
    lines += core::concat(problems.size() > 1 ? "\n  " : "", place, ' ', each.text);
  }
  FM_USER_CHECK(problems.size() < 2, name, " must hold only what fmengine can honour; change ",
                problems.size(), " places:", lines);
  FM_USER_CHECK(problems.empty(), lines);
}

std::vector<std::string> to_notes(const Findings& findings) {
  std::vector<std::string> notes = findings.notes;
  if (!findings.defaults.empty()) {
    notes.push_back("\"auto\" keeps the default: " + core::join(findings.defaults, ", "));
  }
  for (const Finding& each : findings.ignored) {
    notes.push_back("ignored " + core::join(each.what, ", ") + ": " + each.why);
  }
  return notes;
}

}  // namespace fm::cli

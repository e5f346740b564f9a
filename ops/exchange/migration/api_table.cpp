#include "keel/ops/exchange/migration/api_table.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/ops/exchange/migration/builtin_tables.h"

namespace keel::migration {
namespace {

std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.')); }

// The name without its last part; empty where it has one part.
std::string_view parent_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

// Returns the entry of the name itself or of the nearest one that it lies in.
template <class Map>
auto find_longest(const Map& map, std::string_view name) {
  auto found = map.find(name);
  while (found == map.end() && !name.empty()) {
    name = parent_of(name);
    found = map.find(name);
  }
  return found;
}

// Returns `path`, which begins with a dot or is empty, without those parts.
std::string without_parts(std::string_view path, const std::set<std::string, std::less<>>& parts) {
  std::string kept;
  while (!path.empty()) {
    const size_t end = std::min(path.find('.', 1), path.size());
    // The last part is the name itself.
    if (end == path.size() || !parts.contains(path.substr(1, end - 1))) kept += path.substr(0, end);
    path.remove_prefix(end);
  }
  return kept;
}

template <class Names>
void read_names(const JsonView& list, Names& names) {
  for (size_t i = 0; i < list.size(); ++i) names.insert(list[i].text());
}

}  // namespace

ApiTable ApiTable::builtin() {
  ApiTable table;
  for (const BuiltinTable& builtin : builtin_tables()) table.add(builtin.json, builtin.name);
  return table;
}

void ApiTable::add(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source);
  const JsonView view(document, source);
  view.require_only({"apis", "modules", "options", "third_party", "unknown", "standard_library"});
  if (const auto modules = view.find("modules")) read_modules(*modules);
  if (const auto options = view.find("options")) read_options(*options);
  if (const auto names = view.find("standard_library")) read_names(*names, standard_library_);
  if (const auto verdict = view.find("third_party")) {
    verdict->require_only({"level", "advice"});
    third_party_ = read_verdict(*verdict);
  }
  if (const auto verdict = view.find("unknown")) {
    verdict->require_only({"level", "advice"});
    unknown_ = read_verdict(*verdict);
  }
  if (const auto apis = view.find("apis")) {
    Rows rows;
    read_rows(*apis, rows.exact, &rows.patterns);
    tables_.insert(tables_.begin(), std::move(rows));
  }
}

ApiTable::Verdict ApiTable::read_verdict(const JsonView& row) {
  const JsonView level = row["level"];
  const std::vector<std::string> names = level_names();
  const auto name = std::find(names.begin(), names.end(), level.text());
  if (name == names.end()) {
    std::string expected;
    for (const std::string& one : names) expected += (expected.empty() ? "" : ", ") + one;
    throw level.error("one of: " + expected);
  }
  return {kLevels.at(static_cast<size_t>(name - names.begin())), row["advice"].text()};
}

// Rows of one table differ in name; options replace those of earlier tables.
void ApiTable::read_rows(const JsonView& rows, Verdicts& exact, Verdicts* patterns) {
  constexpr std::string_view kAnything = ".*";
  std::set<std::string> seen;
  for (size_t i = 0; i < rows.size(); ++i) {
    const JsonView row = rows[i];
    row.require_only({"name", "level", "advice"});
    std::string name = row["name"].text();
    if (!seen.insert(name).second) throw row["name"].error("a name that no row before it has");
    const bool is_pattern = patterns != nullptr && name.ends_with(kAnything);
    if (is_pattern) name.resize(name.size() - kAnything.size());
    if (name.empty() || name.find('*') != std::string::npos)
      throw row["name"].error("a name, or one with '.*' at its end");
    for (std::string_view outer = is_pattern ? std::string_view(name) : parent_of(name);
         patterns != nullptr && !outer.empty(); outer = parent_of(outer))
      namespaces_.emplace(outer);
    (is_pattern ? *patterns : exact)[name] = read_verdict(row);
  }
}

void ApiTable::read_modules(const JsonView& modules) {
  for (size_t i = 0; i < modules.size(); ++i) {
    const JsonView row = modules[i];
    row.require_only({"module", "as", "without"});
    ModuleRule rule{row["as"].text(), {}};
    if (const auto parts = row.find("without")) read_names(*parts, rule.without);
    modules_[row["module"].text()] = std::move(rule);
  }
}

void ApiTable::read_options(const JsonView& options) {
  options.require_only({"module", "calls", "results", "maps", "rows"});
  option_module_ = options["module"].text();
  read_names(options["calls"], option_calls_);
  read_names(options["results"], option_results_);
  read_names(options["maps"], option_maps_);
  read_rows(options["rows"], options_, nullptr);
}

ApiTable::Name ApiTable::canonical(std::string_view qualified) const {
  const auto rule = find_longest(modules_, qualified);
  const std::string module(first_part(qualified));
  if (rule == modules_.end()) return {module, std::string(qualified), false};
  const std::string_view path = qualified.substr(rule->first.size());
  return {module, rule->second.as + without_parts(path, rule->second.without), true};
}

ApiTable::Match ApiTable::find_row(const Rows& rows, std::string_view name) {
  const auto exact = find_longest(rows.exact, name);
  const auto pattern = find_longest(rows.patterns, parent_of(name));
  const bool is_exact = exact != rows.exact.end() && (pattern == rows.patterns.end() ||
                                                      exact->first.size() > pattern->first.size());
  if (is_exact) return {&exact->second, exact->first, false};
  if (pattern != rows.patterns.end()) return {&pattern->second, pattern->first, true};
  return {};
}

Finding ApiTable::judge(const Name& name) const {
  Match found;
  for (const Rows& table : tables_) {
    const Match match = find_row(table, name.text);
    if (match.verdict == nullptr) continue;
    const bool is_nearer = match.row.size() > found.row.size() ||
                           (match.row.size() == found.row.size() && match.is_pattern);
    if (is_nearer) found = match;
    const bool is_of_class = !found.is_pattern && found.row.size() < name.text.size();
    if (!is_of_class) break;
  }
  if (found.verdict == nullptr) {
    const Verdict& verdict = name.known ? unknown_ : third_party_;
    return {name.module, name.text, verdict.level, verdict.advice};
  }
  const std::string judged = found.is_pattern ? name.text : std::string(found.row);
  return {name.module, judged, found.verdict->level, found.verdict->advice};
}

bool ApiTable::has_row(std::string_view name) const {
  return std::any_of(tables_.begin(), tables_.end(),
                     [&](const Rows& table) { return table.exact.contains(name); });
}

bool ApiTable::is_namespace(std::string_view name) const { return namespaces_.contains(name); }

bool ApiTable::exports(std::string_view module, std::string_view name) const {
  const auto rule = find_longest(modules_, module);
  if (rule == modules_.end()) return false;
  if (rule->second.without.contains(name)) return true;
  const std::string text = canonical(std::string(module) + "." + std::string(name)).text;
  return has_row(text) || is_namespace(text);
}

bool ApiTable::is_standard(std::string_view module) const {
  return standard_library_.contains(module);
}

Finding ApiTable::judge_option(std::string_view name, std::string_view module) const {
  const auto row = options_.find(name);
  const Verdict& verdict = row == options_.end() ? unknown_ : row->second;
  return {module.empty() ? option_module_ : std::string(module), std::string(name), verdict.level,
          verdict.advice};
}

}  // namespace keel::migration

#include "keel/ops/exchange/migration/python_bindings.h"

#include <algorithm>
#include <iterator>

#include "keel/core/base/error.h"

namespace keel::migration {
namespace {

using Kind = PythonToken::Kind;

// Each name of the script is looked for in each of them.
constexpr size_t kMostStars = 100;

// No API has a longer name; what is beyond is left out, so that a use costs little.
constexpr size_t kMostOfName = 300;

void append(std::string& name, std::string_view part) {
  name += part.substr(0, kMostOfName - std::min(name.size(), kMostOfName));
}

bool is_name(const PythonToken& token) { return token.kind == Kind::kName; }

// A statement begins behind the end of another, or behind a colon: "try: import x".
bool begins_statement(const std::vector<PythonToken>& tokens, size_t at) {
  if (at == 0 || tokens[at - 1].kind == Kind::kEnd) return true;
  return tokens[at - 1].is_operator(":") && !tokens[at].in_brackets;
}

}  // namespace

DottedName dotted_name(const std::vector<PythonToken>& tokens, size_t first) {
  DottedName name{first, first + 1, {}};
  while (name.end + 1 < tokens.size() && tokens[name.end].is_operator(".") &&
         is_name(tokens[name.end + 1])) {
    append(name.attributes, ".");
    append(name.attributes, tokens[name.end + 1].text);
    name.end += 2;
  }
  return name;
}

PythonBindings::PythonBindings(const std::vector<PythonToken>& tokens, const std::string& source,
                               const ApiTable& table)
    : tokens_(tokens), table_(table) {
  for (size_t at = 0; at < tokens_.size(); ++at) {
    if (is_name(tokens_[at]) && begins_statement(tokens_, at)) read_statement(at);
  }
  if (stars_.size() > kMostStars) {
    throw Error({.op = source + ":" + std::to_string(tokens_[stars_[kMostStars].first].line),
                 .message = "more than " + std::to_string(kMostStars) + " imports of everything"});
  }
}

void PythonBindings::read_statement(size_t first) {
  if (tokens_[first].is_name("import"))
    imports_.emplace_back(first, read_import(first + 1));
  else if (tokens_[first].is_name("from"))
    imports_.emplace_back(first, read_from(first + 1));
  else if (tokens_[first + 1].is_operator("="))
    read_assignment(first);
}

void PythonBindings::bind(size_t token, std::string_view name, ImportedName imported) {
  bindings_[std::string(name)].push_back({token, std::move(imported), false});
}

// Reads "a.b.c", with dots in front of a relative one; empty where there is none.
std::string PythonBindings::read_module(size_t& at) const {
  std::string module;
  while (is_name(tokens_[at]) || tokens_[at].is_operator(".")) {
    if (tokens_[at].is_name("import") || tokens_[at].is_name("as")) break;
    append(module, tokens_[at++].text);
  }
  return module;
}

// Reads "as name"; empty where there is none.
std::string_view PythonBindings::read_alias(size_t& at) const {
  if (!tokens_[at].is_name("as") || !is_name(tokens_[at + 1])) return {};
  at += 2;
  return tokens_[at - 1].text;
}

// import a.b, c as d
size_t PythonBindings::read_import(size_t at) {
  while (true) {
    const size_t begin = at;
    const std::string module = read_module(at);
    if (module.empty()) return at;
    const std::string_view alias = read_alias(at);
    const std::string root = module.substr(0, module.find('.'));
    if (alias.empty())
      bind(begin, root, {root, true});
    else
      bind(begin, alias, {module, true});
    if (!tokens_[at].is_operator(",")) return at;
    ++at;
  }
}

// from a.b import (c, d as e), or *
size_t PythonBindings::read_from(size_t at) {
  const size_t begin = at;
  const std::string module = read_module(at);
  if (module.empty() || !tokens_[at].is_name("import")) return at;
  const bool relative = module[0] == '.';
  ++at;
  if (tokens_[at].is_operator("*")) {
    if (!relative) stars_.emplace_back(begin, module);
    return at + 1;
  }
  if (tokens_[at].is_operator("(")) ++at;
  while (is_name(tokens_[at])) {
    const size_t place = at;
    const std::string_view name = tokens_[at++].text;
    const std::string_view alias = read_alias(at);
    ImportedName imported;
    if (!relative) {
      imported.qualified = module + ".";
      append(imported.qualified, name);
    }
    imported.is_module =
        !relative && table_.is_namespace(table_.canonical(imported.qualified).text);
    bind(place, alias.empty() ? name : alias, std::move(imported));
    if (!tokens_[at].is_operator(",")) break;
    ++at;
  }
  return tokens_[at].is_operator(")") ? at + 1 : at;
}

// layers = tf.layers
void PythonBindings::read_assignment(size_t at) {
  const std::string_view name = tokens_[at].text;
  const auto known = bindings_.find(name);
  const DottedName value = is_name(tokens_[at + 2]) ? dotted_name(tokens_, at + 2) : DottedName{};
  const ImportedName* root = value.end == 0 ? nullptr : find(value.first);
  if (root != nullptr && !root->qualified.empty() && tokens_[value.end].kind == Kind::kEnd) {
    const std::string qualified = root->qualified + value.attributes;
    if (table_.is_namespace(table_.canonical(qualified).text)) {
      bindings_[std::string(name)].push_back({at, {qualified, true}, true});
      return;
    }
  }
  // The name means something else from here on, unless it is that of an import.
  if (known != bindings_.end() && known->second.back().assigned)
    known->second.push_back({at, {}, true});
}

const ImportedName* PythonBindings::find(size_t token) const {
  const auto entry = bindings_.find(tokens_[token].text);
  if (entry == bindings_.end()) return nullptr;
  const std::vector<Binding>& list = entry->second;
  auto behind = std::upper_bound(list.begin(), list.end(), token,
                                 [](size_t at, const Binding& b) { return at < b.token; });
  if (behind == list.begin()) return list.front().assigned ? nullptr : &list.front().name;
  return &std::prev(behind)->name;
}

bool PythonBindings::in_import(size_t token) const {
  const auto behind = std::upper_bound(
      imports_.begin(), imports_.end(), token,
      [](size_t at, const std::pair<size_t, size_t>& range) { return at < range.first; });
  return behind != imports_.begin() && token < std::prev(behind)->second;
}

}  // namespace keel::migration

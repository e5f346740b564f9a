#include "keel/ops/exchange/migration/python_bindings.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "keel/core/base/error.h"

namespace keel::migration {
namespace {

using Kind = PythonToken::Kind;

// Each name of the script is looked for in each of them.
constexpr size_t kMostStars = 100;

// No API has a longer name; what is beyond is left out, so that a use costs little.
constexpr size_t kMostOfDottedName = 300;

void append(std::string& name, std::string_view part) {
  name += part.substr(0, kMostOfDottedName - std::min(name.size(), kMostOfDottedName));
}

bool is_name(const PythonToken& token) { return token.kind == Kind::kName; }

// Returns whether a statement that begins with this token has a block behind a colon. Without one,
// a colon outside of brackets is that of an annotation: "layers: Any = tf.layers".
bool begins_block(const std::vector<PythonToken>& tokens, size_t first) {
  constexpr std::array<std::string_view, 12> kKeywords = {"if",      "elif", "else",   "for",
                                                          "while",   "with", "except", "try",
                                                          "finally", "def",  "class",  "async"};
  const std::string_view word = tokens[first].text;
  if (std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end()) return true;
  // These two are names as well: "match: int = 1".
  const bool is_soft = word == "match" || word == "case";
  return is_soft && !tokens[first + 1].is_operator(":");
}

// Returns whether the value of a ":=" ends in front of this token. What "n := tf.layers is None"
// gives to n is no module. That of a "=" ends with its statement: "tf.layers, 3" is a tuple.
bool ends_inner_value(const PythonToken& token) {
  constexpr std::array<std::string_view, 5> kSigns = {",", ":", ")", "]", "}"};
  return token.kind == Kind::kEnd ||
         (token.kind == Kind::kOperator &&
          std::find(kSigns.begin(), kSigns.end(), token.text) != kSigns.end());
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
  read_statements();
  if (stars_.size() > kMostStars) {
    throw Error({.op = source + ":" + std::to_string(tokens_[stars_[kMostStars].first].line),
                 .message = "more than " + std::to_string(kMostStars) + " imports of everything"});
  }
}

void PythonBindings::read_statements() {
  bool begins = true, has_block = false;
  for (size_t at = 0; at < tokens_.size(); ++at) {
    const PythonToken& token = tokens_[at];
    if (is_name(token) && tokens_[at + 1].is_operator(":=")) read_assignment(at, at + 2);
    if (begins) {
      has_block = is_name(token) && begins_block(tokens_, at);
      if (is_name(token)) read_statement(at);
    }
    // Behind the colon of a block stands another statement: "try: import x".
    begins =
        token.kind == Kind::kEnd || (has_block && token.is_operator(":") && !token.in_brackets);
  }
}

void PythonBindings::read_statement(size_t first) {
  if (tokens_[first].is_name("import"))
    imports_.emplace_back(first, read_import(first + 1));
  else if (tokens_[first].is_name("from"))
    imports_.emplace_back(first, read_from(first + 1));
  else if (tokens_[first + 1].is_operator("="))
    read_assignments(first);
  else if (tokens_[first + 1].is_operator(":"))
    read_annotated(first);
}

// a = b = tf.layers
void PythonBindings::read_assignments(size_t first) {
  size_t value = first + 2;
  while (is_name(tokens_[value]) && tokens_[value + 1].is_operator("=")) value += 2;
  for (size_t target = first; target < value; target += 2) read_assignment(target, value);
}

// layers: Any = tf.layers
void PythonBindings::read_annotated(size_t target) {
  if (begins_block(tokens_, target)) return;  // else:
  size_t at = target + 2;
  while (tokens_[at].kind != Kind::kEnd &&
         (tokens_[at].in_brackets || !tokens_[at].is_operator("=")))
    ++at;
  if (tokens_[at].is_operator("=")) read_assignment(target, at + 1);
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

// A target and the first token of its value.
void PythonBindings::read_assignment(size_t target, size_t value) {
  const std::string_view name = tokens_[target].text;
  const auto known = bindings_.find(name);
  const DottedName given = is_name(tokens_[value]) ? dotted_name(tokens_, value) : DottedName{};
  const ImportedName* root = given.end == 0 ? nullptr : find(given.first);
  const bool is_inner = tokens_[target + 1].is_operator(":=");
  const auto ends = [&](const PythonToken& token) {
    return is_inner ? ends_inner_value(token) : token.kind == Kind::kEnd;
  };
  if (root != nullptr && !root->qualified.empty() && ends(tokens_[given.end])) {
    const std::string qualified = root->qualified + given.attributes;
    if (table_.is_namespace(table_.canonical(qualified).text)) {
      bindings_[std::string(name)].push_back({target, {qualified, true}, true});
      return;
    }
  }
  // The name means something else from here on, unless it is that of an import.
  if (known != bindings_.end() && known->second.back().assigned)
    known->second.push_back({target, {}, true});
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

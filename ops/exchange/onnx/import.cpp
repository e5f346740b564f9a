#include "keel/ops/exchange/onnx/import.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "keel/core/base/printable.h"
#include "keel/ops/exchange/onnx/import_trials.h"
#include "keel/ops/exchange/onnx/importer.h"

namespace keel::onnx {
namespace {

constexpr size_t kNodesNamed = 4;

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNodesNamed; ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i], 200);
  if (names.size() > kNodesNamed) text += " ...";
  return text;
}

std::string text_of(const std::vector<Refusal>& refusals, size_t unchecked) {
  std::string text;
  for (const Refusal& refusal : refusals) {
    const std::string version =
        refusal.version > 0 ? " (opset " + std::to_string(refusal.version) + ")" : "";
    text += (text.empty() ? "cannot be imported: " : "; ") + std::to_string(refusal.nodes.size()) +
            " x " + printable(refusal.op, 200) + version + ": " + refusal.reason + " [" +
            list_of(refusal.nodes) + "]";
  }
  if (unchecked > 0) {
    text += "; " + std::to_string(unchecked) + (unchecked == 1 ? " more node" : " more nodes") +
            " behind or inside of these could not be checked";
  }
  return text;
}

Value find(const std::vector<std::pair<std::string, Value>>& values, const std::string& name,
           const char* what) {
  std::string known;
  for (const auto& entry : values) {
    if (entry.first == name) return entry.second;
    known += (known.empty() ? "" : ", ") + entry.first;
  }
  throw Error({.op = "model",
               .argument = what,
               .expected = "one of: " + known,
               .got = name,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

Unsupported::Unsupported(const std::string& source, std::vector<Refusal> refusals,
                         std::vector<std::string> unchecked)
    : Error({.op = source, .message = text_of(refusals, unchecked.size())}),
      refusals_(std::move(refusals)),
      unchecked_(std::move(unchecked)) {}
Unsupported::~Unsupported() = default;

std::string op_name(const NodeProto& node) {
  return node.domain.empty() ? node.op : node.domain + "." + node.op;
}

std::string node_name(const NodeProto& node) {
  if (!node.name.empty()) return node.name;
  for (const std::string& output : node.outputs)
    if (!output.empty()) return output;
  return "unnamed";
}

Value ImportedModel::input(const std::string& name) const { return find(inputs, name, "input"); }
Value ImportedModel::output(const std::string& name) const { return find(outputs, name, "output"); }

void ImportRules::add(const std::string& domain, const std::string& op, ImportRule rule,
                      Folding folding) {
  if (!rules_.emplace(std::make_pair(domain, op), std::make_pair(rule, folding)).second)
    throw Error({.op = "onnx", .argument = op, .message = "has two import rules"});
}

ImportRule ImportRules::find(const std::string& domain, const std::string& op) const {
  const auto rule = rules_.find({domain, op});
  return rule == rules_.end() ? nullptr : rule->second.first;
}

bool ImportRules::folds(const std::string& domain, const std::string& op) const {
  const auto rule = rules_.find({domain, op});
  return rule != rules_.end() && rule->second.second == Folding::kWhereKnown;
}

ImportedModel import_model(const ModelProto& model, const ImportOptions& options) {
  ImportRules rules;
  register_import_rules(rules);
  return import_by_rules(model, options, rules);
}

ImportedModel import_by_rules(const ModelProto& model, const ImportOptions& options,
                              const ImportRules& rules) {
  try {
    return Importer(model, options, rules).run();
  } catch (const Unsupported&) {
    if (!has_open_dimensions(model, options)) throw;
    std::optional<ImportedModel> made;
    try {
      made = import_by_trials(model, options, rules);
    } catch (const Error&) {
      // What it was refused for before is what the user can do something about.
    }
    if (!made) throw;
    return std::move(*made);
  }
}

ImportedModel load(const std::string& path, const ImportOptions& options) {
  return import_model(read_model(path), options);
}

}  // namespace keel::onnx

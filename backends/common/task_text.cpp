#include "keel/backends/common/task_text.h"

#include <cctype>

#include "keel/core/base/printable.h"
#include "keel/graph/ir/fused_body.h"

namespace keel {

std::string op_text(const Node& node) {
  if (!is_fused_node(node)) return node.op_name();
  const FusedBody parts(*node.bodies()[0]);
  if (parts.anchor != nullptr) return parts.anchor->op_name();
  if (!parts.row_wise.empty()) return parts.row_wise.front()->op_name();
  const Node* first = nullptr;
  for (const Node* inner : parts.epilogue) {
    if (inner->has(kSource | kView | kMovement)) continue;
    if (first == nullptr || !inner->has(kCheap)) first = inner;
    if (!inner->has(kCheap)) break;
  }
  return first == nullptr ? node.op_name() : first->op_name();
}

namespace {

// Returns whether the word stands in the text with no letter, digit or _ beside it.
bool has_word(const std::string& text, const std::string& word) {
  const auto is_part = [&](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && is_part(at - 1)) && !is_part(at + word.size())) return true;
  }
  return false;
}

}  // namespace

std::string title_of(const TaskInfo& info) {
  const bool says_op = info.op.empty() || has_word(info.name, info.op);
  return says_op ? info.name : info.name + " = " + info.op;
}

std::string types_text(const Node& node) {
  std::string text;
  const char* before = "";
  const auto add = [&](const Type& type) {
    text += before;
    text += to_string(type);
    before = ", ";
  };
  for (const Value& v : node.data_inputs()) add(v.type());
  text += " -> ";
  before = "";
  for (const Type& type : node.data_types()) add(type);
  return text;
}

std::string describe(const TaskList& list) {
  std::string text;
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    const Task& task = list.tasks[i];
    const TaskInfo& info = list.infos[i];
    text += std::to_string(i) + "  " + name_of(task.kind) + "  " + printable(title_of(info));
    if (!info.types.empty()) text += "  " + info.types;
    if (task.kernel != nullptr) text += "  block_dim " + std::to_string(info.block_dim);
    if (!info.reason.empty()) text += "  [" + info.reason + "]";
    if (task.jump != Jump::kNone) text += "  -> " + std::to_string(task.target);
    if (task.device_ns != 0) text += "  " + std::to_string(task.device_ns) + " ns (device)";
    if (info.site.known()) text += "  (" + printable(to_string(info.site)) + ")";
    text += "\n";
  }
  return text;
}

}  // namespace keel

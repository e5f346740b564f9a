#include "keel/backends/npu/kernels/kernel_entry.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "keel/backends/npu/kernels/device_passes.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

using Family = std::span<const KernelEntry> (*)();
constexpr Family kFamilies[] = {shared_entries, vector_entries, product_entries, softmax_entries};

bool has_op(const KernelEntry& entry, std::string_view op) {
  return std::find(entry.ops.begin(), entry.ops.end(), op) != entry.ops.end();
}

// The entries that may serve an op, in the order of the families. Each node of a graph is looked up
// several times while it is compiled.
class EntriesByOp {
 public:
  EntriesByOp() {
    for (const Family family : kFamilies) {
      for (const KernelEntry& entry : family()) {
        for (const auto& op : entry.ops) named_.try_emplace(op);
      }
    }
    for (const Family family : kFamilies) {
      for (const KernelEntry& entry : family()) add(entry);
    }
  }

  const std::vector<const KernelEntry*>& of(std::string_view op) const {
    const auto it = named_.find(op);
    return it == named_.end() ? for_any_op_ : it->second;
  }

 private:
  void add(const KernelEntry& entry) {
    if (entry.ops.empty()) for_any_op_.push_back(&entry);
    for (auto& [op, entries] : named_) {
      if (entry.ops.empty() || has_op(entry, op)) entries.push_back(&entry);
    }
  }

  std::unordered_map<std::string_view, std::vector<const KernelEntry*>> named_;
  std::vector<const KernelEntry*> for_any_op_;
};

[[noreturn]] void unpriced(const Node& node) {
  throw Error({.op = node.op_name(),
               .message = "has no price on the NPU",
               .fix = "give passes to its kernel's entry, or to its instruction in "
                      "backends/common/vector",
               .site = node.site()});
}

}  // namespace

const KernelEntry* find_entry(const AnchoredNode& anchored) {
  static const EntriesByOp by_op;
  for (const KernelEntry* entry : by_op.of(anchored.anchor().op_name())) {
    if (entry->matches == nullptr || entry->matches(anchored)) return entry;
  }
  return nullptr;
}

NodeWork work_of(const Preset& preset, const AnchoredNode& anchored, const Packing& packing) {
  const KernelEntry* entry = find_entry(anchored);
  if (entry == nullptr) unpriced(anchored.node());
  return entry->work({preset, anchored, packing});
}

int64_t passes_of(const Node& node) {
  if (const int64_t passes = device_passes(node.op_name()); passes != 0) return passes;
  for (const Family family : kFamilies) {
    for (const KernelEntry& entry : family()) {
      if (entry.passes != 0 && has_op(entry, node.op_name())) return entry.passes;
    }
  }
  unpriced(node);
}

}  // namespace keel::npu

#include "keel/backends/npu/kernels/kernel_row.h"

#include <algorithm>
#include <set>

#include "keel/backends/npu/isa/vector_passes.h"
#include "keel/core/base/error.h"

namespace keel::npu {
namespace {

using Family = std::span<const KernelRow> (*)();
constexpr Family kFamilies[] = {shared_rows, vector_rows, product_rows, softmax_rows};

bool has_op(const KernelRow& row, std::string_view op) {
  return std::find(row.ops.begin(), row.ops.end(), op) != row.ops.end();
}

[[noreturn]] void unpriced(const Node& node) {
  throw Error({.op = node.op_name(),
               .message = "has no price on the NPU",
               .fix = "give it passes in its kernel's row, or its instruction in "
                      "backends/npu/isa/vector_passes.cpp",
               .site = node.site()});
}

}  // namespace

const KernelRow* find_row(const AnchoredNode& anchored) {
  const std::string_view op = anchored.anchor().op_name();
  for (const Family family : kFamilies) {
    for (const KernelRow& row : family()) {
      const bool named = row.ops.empty() || has_op(row, op);
      if (named && (row.matches == nullptr || row.matches(anchored))) return &row;
    }
  }
  return nullptr;
}

std::vector<std::string> ops_not_run_as_planned() {
  std::set<std::string_view> planned;
  for (const Family family : kFamilies) {
    for (const KernelRow& row : family()) {
      if (row.planned != nullptr) planned.insert(row.ops.begin(), row.ops.end());
    }
  }
  std::vector<std::string> ops;
  for (const Family family : kFamilies) {
    for (const KernelRow& row : family()) {
      if (row.planned != nullptr) continue;
      for (const std::string_view op : row.ops) {
        ops.push_back((planned.contains(op) ? "some of " : "") + std::string(op));
      }
    }
  }
  return ops;
}

NodeWork work_of(const Preset& preset, const AnchoredNode& anchored, const Packing& packing) {
  const KernelRow* row = find_row(anchored);
  if (row == nullptr) unpriced(anchored.node());
  return row->work({preset, anchored, packing});
}

int64_t passes_of(const Node& node) {
  if (const int64_t passes = vector_passes(node.op_name()); passes != 0) return passes;
  for (const Family family : kFamilies) {
    for (const KernelRow& row : family()) {
      if (row.passes != 0 && has_op(row, node.op_name())) return row.passes;
    }
  }
  unpriced(node);
}

}  // namespace keel::npu

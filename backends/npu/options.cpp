#include "keel/backends/npu/options.h"

#include <utility>
#include <vector>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/graph/ir/op_table.h"

namespace keel::npu {
namespace {

void require_blocks(int64_t blocks, const std::string& what) {
  if (blocks >= 1) return;
  throw Error({.op = "block_dim",
               .argument = what,
               .expected = "at least 1",
               .got = std::to_string(blocks),
               .kind = ErrorKind::kInvalidArgument});
}

// An op that nobody has would be forced in no launch, and nobody would say so.
void require_known_op(const std::string& name) {
  if (name == kCopyLaunch || builtin_ops().find(name) != nullptr) return;
  std::vector<std::string> known = {kCopyLaunch};
  for (const OpDef* op : builtin_ops().all()) known.push_back(op->name);
  const std::string hint = did_you_mean(name, known);
  throw Error({.op = "block_dim",
               .argument = "force",
               .expected = "the name of a built-in op, or copy for copies",
               .got = "'" + name + "'",
               .fix = hint.empty() ? "keel info lists the ops" : hint,
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

NpuOptions::NpuOptions(std::shared_ptr<const Preset> preset, BlockDimOptions block_dim)
    : preset_(preset != nullptr ? std::move(preset) : default_preset()),
      block_dim_(std::move(block_dim)) {
  if (block_dim_.cap) require_blocks(*block_dim_.cap, "cap");
  for (const auto& [op, blocks] : block_dim_.force) {
    require_known_op(op);
    require_blocks(blocks, op);
  }
}

NpuOptions::~NpuOptions() = default;

std::shared_ptr<const DeviceOptions> options(const std::string& preset, BlockDimOptions block_dim) {
  auto loaded = preset.empty() ? nullptr : std::make_shared<const Preset>(load_preset(preset));
  return std::make_shared<const NpuOptions>(std::move(loaded), std::move(block_dim));
}

}  // namespace keel::npu

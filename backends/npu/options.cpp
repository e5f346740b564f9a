#include "keel/backends/npu/options.h"

#include <utility>

#include "keel/core/base/error.h"

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

}  // namespace

NpuOptions::NpuOptions(std::shared_ptr<const Preset> preset, BlockDimOptions block_dim)
    : preset_(preset != nullptr ? std::move(preset) : default_preset()),
      block_dim_(std::move(block_dim)) {
  if (block_dim_.cap) require_blocks(*block_dim_.cap, "cap");
  for (const auto& [op, blocks] : block_dim_.force) require_blocks(blocks, op);
}

NpuOptions::~NpuOptions() = default;

std::shared_ptr<const DeviceOptions> options(const std::string& preset, BlockDimOptions block_dim) {
  auto loaded =
      preset.empty() ? nullptr : std::make_shared<const Preset>(load_preset(preset));
  return std::make_shared<const NpuOptions>(std::move(loaded), std::move(block_dim));
}

}  // namespace keel::npu

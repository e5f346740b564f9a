// Core: the buffers of one modelled core while a planned launch is carried out: unified buffer, L1,
// L0A, L0B and L0C of the preset's sizes. A block claims all that it needs before its first tile;
// what it claims is poison until something is brought there, and lies between guards. Used by one
// thread, block after block.
#ifndef KEEL_BACKENDS_NPU_DEVICE_CORE_H
#define KEEL_BACKENDS_NPU_DEVICE_CORE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "keel/backends/common/guarded_memory.h"
#include "keel/backends/npu/presets/preset.h"

namespace keel::npu {

enum class CoreBuffer : uint8_t { kUnified, kL1, kL0A, kL0B, kL0C };
const char* name_of(CoreBuffer buffer) noexcept;
int64_t size_on(const Preset& preset, CoreBuffer buffer) noexcept;

// Part of a buffer.
struct Claim {
  CoreBuffer buffer = CoreBuffer::kUnified;
  size_t bytes = 0;
  std::string what;  // "input 0, second buffer"
};

class Core {
 public:
  // REQUIRES that the preset outlives the core. `op` is for messages.
  Core(const Preset& preset, std::string op) : preset_(preset), op_(std::move(op)) {}

  // A block begins on the core; what the one before claimed is free again. Throws Error where the
  // claims on a buffer are more bytes than it has.
  void begin_block(int64_t block, std::vector<Claim> claims);
  void begin_tile(int64_t tile) noexcept { tile_ = tile; }
  int64_t block() const noexcept { return block_; }
  int64_t tile() const noexcept { return tile_; }

  // Returns the memory of claim i, aligned to 64 bytes.
  char* at(size_t i) noexcept { return memory_.block(i); }
  size_t bytes(size_t i) const noexcept { return claims_[i].bytes; }
  // The same, after a check that so many bytes fit; all of it is made poison before.
  char* refill(size_t i, size_t bytes);
  // Throws Error where the tile wrote beyond a claim.
  void end_tile();

  // An Error of this op, core and tile.
  [[noreturn]] void fail(const std::string& buffer, const std::string& message) const;

 private:
  const Preset& preset_;
  std::string op_;
  std::vector<Claim> claims_;
  GuardedMemory memory_;
  int64_t block_ = 0, tile_ = 0;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_DEVICE_CORE_H

// GuardedMemory: blocks of host memory of exactly the sizes asked for, each between two guards
// that are filled with poison: a pattern that is NaN in every float, and a huge or negative
// integer. Under AddressSanitizer the guards may not even be read while they are up. One thread.
#ifndef KEEL_BACKENDS_COMMON_GUARDED_MEMORY_H
#define KEEL_BACKENDS_COMMON_GUARDED_MEMORY_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "keel/core/tensor/buffer.h"

namespace keel {

// Two patterns that differ in each byte; which of the pattern's two bytes stands where follows from
// the offset in the block alone.
enum class Poison : uint16_t { kFirst = 0x7fa5, kSecond = 0xffda };
inline uint8_t poison_byte(Poison poison, size_t offset) noexcept {
  return static_cast<uint8_t>(static_cast<uint16_t>(poison) >> (offset % 2 * 8));
}
void fill_poison(void* data, size_t bytes, Poison poison) noexcept;

class GuardedMemory {
 public:
  static constexpr size_t kGuardBytes = 1024;

  // Room for a block of each size at once; `sizes` of every later layout must fit into it.
  static size_t bytes_for(const std::vector<size_t>& sizes);
  void reserve(size_t bytes);

  // Lays out one block for each size, blocks and guards filled with poison. Blocks are aligned to
  // Buffer::kAlignment and end exactly where their guard begins.
  void lay_out(const std::vector<size_t>& sizes, Poison poison);
  char* block(size_t i) noexcept { return data() + blocks_[i].offset; }
  const char* block(size_t i) const noexcept { return data() + blocks_[i].offset; }
  size_t bytes(size_t i) const noexcept { return blocks_[i].bytes; }

  void raise_guards() noexcept;
  void lower_guards() noexcept;
  // Returns where a guard of block i was written to, as an offset from the block's first byte
  // (negative before it); nothing where both are whole. REQUIRES lowered guards.
  std::optional<ptrdiff_t> damage(size_t i) const noexcept;

  ~GuardedMemory();
  GuardedMemory() = default;
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

 private:
  struct Block {
    size_t offset = 0;
    size_t bytes = 0;
  };
  char* data() const noexcept { return static_cast<char*>(memory_->address()); }

  std::shared_ptr<Buffer> memory_;
  std::vector<Block> blocks_;
  Poison poison_ = Poison::kFirst;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_GUARDED_MEMORY_H

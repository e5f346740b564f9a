#include "keel/backends/npu/device/core.h"

#include <utility>

#include "keel/core/base/error.h"

namespace keel::npu {

const char* name_of(CoreBuffer buffer) noexcept {
  static constexpr const char* kNames[] = {"unified buffer", "L1", "L0A", "L0B", "L0C"};
  return kNames[static_cast<size_t>(buffer)];
}

int64_t size_on(const Preset& preset, CoreBuffer buffer) noexcept {
  const int64_t sizes[] = {preset.ub_bytes, preset.l1_bytes, preset.l0a_bytes, preset.l0b_bytes,
                           preset.l0c_bytes};
  return sizes[static_cast<size_t>(buffer)];
}

void Core::begin_block(int64_t block, std::vector<Claim> claims) {
  block_ = block;
  tile_ = 0;
  claims_ = std::move(claims);
  constexpr CoreBuffer kAll[] = {CoreBuffer::kUnified, CoreBuffer::kL1, CoreBuffer::kL0A,
                                 CoreBuffer::kL0B, CoreBuffer::kL0C};
  for (const CoreBuffer buffer : kAll) {
    const auto size = static_cast<size_t>(size_on(preset_, buffer));
    size_t used = 0;
    for (const Claim& claim : claims_) {
      if (claim.buffer != buffer) continue;
      if (claim.bytes > size - used) {
        fail(name_of(buffer), "the planned tile does not fit: " + claim.what + " wants " +
                                  std::to_string(claim.bytes) + " bytes where " +
                                  std::to_string(size - used) + " of " + std::to_string(size) +
                                  " are free on " + preset_.name);
      }
      used += claim.bytes;
    }
  }
  std::vector<size_t> sizes;
  for (const Claim& claim : claims_) sizes.push_back(claim.bytes);
  memory_.lay_out(sizes, Poison::kSecond);
}

char* Core::refill(size_t i, size_t bytes) {
  const Claim& claim = claims_[i];
  if (bytes > claim.bytes) {
    fail(name_of(claim.buffer), "the planned tile does not fit: " + std::to_string(bytes) +
                                    " bytes of " + claim.what + " where " +
                                    std::to_string(claim.bytes) + " are claimed");
  }
  fill_poison(memory_.block(i), claim.bytes, Poison::kSecond);
  return memory_.block(i);
}

void Core::end_tile() {
  for (size_t i = 0; i < claims_.size(); ++i) {
    if (const auto at = memory_.damage(i)) {
      fail(name_of(claims_[i].buffer), "a write outside " + claims_[i].what + ", at byte " +
                                           std::to_string(*at) + " of " +
                                           std::to_string(claims_[i].bytes));
    }
  }
}

void Core::fail(const std::string& buffer, const std::string& message) const {
  throw Error({.op = op_,
               .argument = buffer,
               .message = "core " + std::to_string(block_) + ", tile " + std::to_string(tile_) +
                          ": " + message});
}

}  // namespace keel::npu

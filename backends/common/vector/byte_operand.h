// Left operands of products that are stored as bytes, with element-wise ops between the bytes and
// what is multiplied: whatever these ops are, each of the 256 bytes counts as one value. Rows of
// the bytes may be gathered on the way. Pure functions; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_BYTE_OPERAND_H
#define KEEL_BACKENDS_COMMON_VECTOR_BYTE_OPERAND_H

#include <cstddef>
#include <cstdint>
#include <optional>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/vector/byte_map.h"
#include "keel/core/device/backend.h"

namespace keel::vector {

// Returns whether the values of bytes are known: the vector library has the ops, and where the
// operand is windows with padding, byte 0 counts as its zeros. REQUIRES that the product's left
// operand is made of one stored value, of bytes, and is f32 or bf16 as it is multiplied.
KEEL_API Support supports_bytes(const AnchoredNode& product);

// Returns what bytes of the left operand count as, rounded to bf16 where it is multiplied in bf16;
// nothing where it is not stored as bytes with ops behind them. REQUIRES supports_bytes.
KEEL_API std::optional<ByteMap> bytes_of(const AnchoredNode& product);

// Stores what `count` bytes count as. The bits are those of the map's table.
using ByteLoad = void (*)(const ByteMap& map, const uint8_t* from, size_t count, float* to);
// Returns the load for the host ISA in use.
KEEL_API ByteLoad find_byte_load();

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_BYTE_OPERAND_H

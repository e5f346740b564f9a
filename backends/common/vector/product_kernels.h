// ProductKernels: the kernel that multiplies bf16 for each class of shapes. Kernels of one class
// sum in different orders, so the choice decides bits and is a part of the host ISA's name:
// "amx:rows=pairs" is AMX tiles for all products but those with few columns. A name without a list
// stands for the set's own kernel in every class. Plain values; any thread.
#ifndef KEEL_BACKENDS_COMMON_VECTOR_PRODUCT_KERNELS_H
#define KEEL_BACKENDS_COMMON_VECTOR_PRODUCT_KERNELS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "keel/backends/common/vector/host_isa.h"
#include "keel/core/base/export.h"

namespace keel::vector {

// The shapes of C[m, n] = A[m, k] x B[k, n].
enum class ShapeClass : uint8_t {
  kSquare,   // none of the others
  kRows,     // few columns, A stored [m, k]
  kColumns,  // few columns, A stored [k, m]
  kVector,   // few rows
  kSmall,    // a small B, but more than a few rows and columns
};
inline constexpr size_t kShapeClasses = 5;
inline constexpr std::array<ShapeClass, kShapeClasses> kAllShapeClasses = {
    ShapeClass::kSquare, ShapeClass::kRows, ShapeClass::kColumns, ShapeClass::kVector,
    ShapeClass::kSmall};
// "square", "rows", "columns", "vector", "small".
KEEL_API const char* name_of(ShapeClass shape) noexcept;

// kF32 multiplies f32 alone; the others multiply 16-bit operands: on AMX tiles, by dot products of
// pairs, or widened to f32.
enum class ProductKernel : uint8_t { kF32, kWidening, kPairs, kTiles };
// "f32", "widening", "pairs", "tiles".
KEEL_API const char* name_of(ProductKernel kernel) noexcept;

struct ProductKernels {
  std::array<ProductKernel, kShapeClasses> bf16 = {};
  ProductKernel of(ShapeClass shape) const { return bf16[static_cast<size_t>(shape)]; }
  ProductKernel& of(ShapeClass shape) { return bf16[static_cast<size_t>(shape)]; }
  friend bool operator==(const ProductKernels&, const ProductKernels&) = default;
};

// Returns the kernels of bf16 products that a host with this set has, its own first.
KEEL_API std::vector<ProductKernel> product_kernels_of(HostIsa isa);
// Returns the set's own kernel for every class.
KEEL_API ProductKernels own_product_kernels(HostIsa isa);

// Parses the list behind the colon of a host ISA's name. Throws Error (kInvalidArgument) naming
// `what` for a class or kernel that there is not.
KEEL_API ProductKernels parse_product_kernels(HostIsa isa, std::string_view list,
                                              const std::string& what);
// Returns the name of the set, with those kernels listed that are not its own.
KEEL_API std::string name_of(HostIsa isa, const ProductKernels& kernels);

}  // namespace keel::vector

#endif  // KEEL_BACKENDS_COMMON_VECTOR_PRODUCT_KERNELS_H

// PrepackedWeight: prepacked weights. The buffer of a weight holds behind the plain value copies
// that are packed as the cube wants a right operand. The product that updates the weight renews
// them, so that products that read it need not pack it. The layout's word says which there are:
// "plain+kn:bf16@avx512_bf16" is the value, then for that host ISA's cube the weight as stored
// ([k, n]) rounded to bf16; "nk" is one that is multiplied transposed. A layout follows from the
// word and the weight's type alone.
// Immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_PRODUCTS_PREPACKED_WEIGHT_H
#define KEEL_BACKENDS_COMMON_PRODUCTS_PREPACKED_WEIGHT_H

#include <optional>
#include <string>
#include <vector>

#include "keel/backends/common/anchored_node.h"
#include "keel/backends/common/cube/cube.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/tile_program.h"

namespace keel {

// Says how a prepacked weight is multiplied.
struct WeightUse {
  bool transposed = false;  // the weight is stored [n, k]
  DType round_to = f32;
  friend bool operator==(const WeightUse&, const WeightUse&) = default;
};

class PrepackedWeight {
 public:
  // Packs for the host ISA in use. REQUIRES an f32 matrix that is not empty.
  PrepackedWeight(const Type& type, std::vector<WeightUse> uses);
  // Throws Error for a word that is not of this host ISA.
  PrepackedWeight(const Type& type, const Layout& layout);

  Layout layout() const;
  size_t bytes() const noexcept { return bytes_; }
  // Returns where in a buffer the copy begins. REQUIRES that it is kept.
  size_t offset(const WeightUse& use) const;

  // Returns whether each piece that begins and ends at multiples of the step, or where the weight
  // does, can be packed by itself.
  bool takes_pieces(size_t copy, const CubeStep& step) const;
  // Packs one copy's part that is made from a piece of the plain value.
  void pack_piece(size_t copy, char* buffer, const TileRectangle& piece) const;
  // Does the same for part `share` of `shares`.
  void pack_share(size_t copy, char* buffer, int64_t share, int64_t shares) const;
  // Fills what lies between the copies for alignment.
  void fill_gaps(char* buffer) const;
  // Packs all copies.
  void pack(char* buffer) const;
  size_t count() const noexcept { return copies_.size(); }
  const WeightUse& use(size_t copy) const { return copies_[copy].use; }
  // "[k, n] in bf16 and [n, k] in bf16"
  std::string description() const;

 private:
  struct Copy {
    WeightUse use;
    CubePlan plan;  // of any product that reads it
    size_t offset = 0;
  };

  size_t rows_, columns_;  // of the weight as stored
  size_t plain_bytes_, bytes_;
  std::vector<Copy> copies_;
};

// Returns what the cube is asked for by a product, without the bytes' map.
CubeProblem cube_problem(const AnchoredNode& product);
// The same for matrices that are one phase of the product (ops/products/product_phases.h).
CubeProblem cube_problem(const AnchoredNode& product, const ProductMatrices& matrices);

// Returns how a product reads its right operand, or nothing if that is no weight that is worth
// prepacking. A copy of a wide one in f32 would be as many bytes to write and to read as packing it
// anew reads, and measures no faster. A narrow one is worth it, since each thread would pack all.
std::optional<WeightUse> weight_use(const AnchoredNode& product);

// Returns the prepacked copy that the product reads instead of its right operand. Returns nothing
// if the state keeps no copy for this use, or the operand shows the weight in another shape.
std::optional<WeightUse> copy_read_by(const AnchoredNode& product, const StateLayouts& layouts);

// Returns the states of a step that are prepacked: f32 matrices that products of the step read as
// their right operands (weight_use), and whose next value another product's epilogue makes. A
// weight that nothing updates stays plain: a program that only reads it then takes the buffer as
// any other left it.
StateLayouts choose_weight_layouts(const Graph& step);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_PRODUCTS_PREPACKED_WEIGHT_H

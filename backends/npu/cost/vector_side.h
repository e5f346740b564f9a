// VectorSide: the part of a product that vector cores do where they and the cube are cores apart:
// they load operands through vector instructions, and do what follows the product. Tiles pass
// between the two kinds of core by global memory, in two slots of each block, which stay in L2.
// Internal to this folder.
#ifndef KEEL_BACKENDS_NPU_COST_VECTOR_SIDE_H
#define KEEL_BACKENDS_NPU_COST_VECTOR_SIDE_H

#include <cstdint>

#include "keel/backends/npu/cost/price.h"

namespace keel::npu {

// Times in ns of one of the vector cores that share a piece of work with a cube core.
struct VectorShare {
  double in = 0, compute = 0, out = 0, scalar = 0;
  double latency = 0;  // from the first copy in to the last one out
  double longest() const;
  void add(const VectorShare& other, double times = 1);
};

class VectorSide {
 public:
  VectorSide(const Preset& preset, const CubeWork& work);

  // Returns whether the vector cores have any part in the product.
  bool any() const { return loads_a() || loads_b() || has_epilogue(); }
  bool loads_a() const { return work_.load_pass_a > 0; }
  bool loads_b() const { return work_.load_pass_b > 0; }
  bool has_epilogue() const;

  // The share of the left operand's next `rows` rows and of the right one's next `cols` columns,
  // all of k.
  VectorShare load_a(int64_t rows) const;
  VectorShare load_b(int64_t cols) const;
  VectorShare epilogue(int64_t rows, int64_t cols) const;
  // Bytes of an element of C as the cube hands it over.
  double handed_size() const;

 private:
  struct Piece {
    double elements = 0;
    double bytes_in = 0, bytes_out = 0;
    double pass_bytes = 0;
    int64_t loads = 1;
    double buffer = 0;  // bytes of unified buffer for one element
    double factor = 1;  // of the copies in
  };
  VectorShare share(const Piece& piece) const;
  VectorShare load(double elements, double stored, int64_t pass_bytes, bool aligned) const;

  const Preset& preset_;
  const CubeWork& work_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_COST_VECTOR_SIDE_H

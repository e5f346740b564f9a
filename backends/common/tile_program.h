// TileProgram: an element-wise cluster (a `fused` node, or one element-wise node) as a short list
// of vector instructions that is run tile by tile: each tile's intermediates stay in a small
// register file, which is what a vector unit does with its unified buffer. Immutable once built;
// run() may be called from any number of threads on disjoint ranges.
#ifndef KEEL_BACKENDS_COMMON_TILE_PROGRAM_H
#define KEEL_BACKENDS_COMMON_TILE_PROGRAM_H

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "keel/backends/common/broadcast.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/vector_call.h"

namespace keel {

// The instruction for an op with sources of dtype `in` (of the last one for select) and results of
// dtype `out`; null where the backend has none.
using InstructionLookup =
    std::function<VectorInstruction(std::string_view op, DType in, DType out)>;

// Whether the lookup has an instruction for each op of an element-wise or fused node.
Support supports_tiles(const Node& node, const InstructionLookup& lookup);

class TileProgram {
 public:
  // REQUIRES supports_tiles(node, lookup).
  TileProgram(const Node& node, const InstructionLookup& lookup);

  // Computes elements [begin, end) of every output. args: the node's inputs, then its outputs.
  // Returns the status bits that saturating instructions raised.
  uint32_t run(void* const* args, int64_t begin, int64_t end) const;

  int64_t elements() const noexcept { return elements_; }
  size_t instructions() const noexcept { return instructions_.size(); }
  // Bytes of unified buffer that a tile needs.
  size_t register_bytes() const noexcept { return register_count_ * register_stride_; }
  int64_t tile_elements() const noexcept { return tile_; }
  const std::vector<KernelPlan::InPlace>& in_place() const noexcept { return in_place_; }

  static constexpr size_t kRegisterFileBytes = 48 * 1024;
  // Outputs of at least as many bytes in all are stored past the caches, which they would only
  // flush: about what a core's share of the last level holds.
  static constexpr size_t kStreamedBytes = size_t{8} << 20;

 private:
  enum class Place : uint8_t { kRegister, kArgument, kConstant };
  struct Operand {
    Place place = Place::kRegister;
    uint32_t index = 0;  // register, argument, or byte offset of the constant
    size_t element_size = 0;
    bool scalar = false;
  };
  struct Instruction {
    VectorInstruction function = nullptr;
    Operand dst;
    Operand src[3];
    uint32_t sources = 0;
    double imm[2] = {0, 0};
    bool leaves = false;  // the result goes to an output and is not read again here
  };
  struct Load {  // of a broadcast input into a register, before the instruction `before`
    size_t before = 0;
    uint32_t argument = 0;
    uint32_t dst = 0;
    BroadcastReader reader;
  };
  class Builder;

  void run_tile(void* const* args, int64_t begin, int64_t count, char* registers,
                uint32_t* status) const;
  bool streams(void* const* args, const Instruction& instruction) const;

  int64_t elements_ = 0;
  int64_t tile_ = 0;
  size_t register_count_ = 0;
  size_t register_stride_ = 0;
  size_t inputs_ = 0;
  bool large_ = false;  // outputs of kStreamedBytes or more
  std::vector<Instruction> instructions_;
  std::vector<Load> loads_;
  std::vector<char> constants_;
  std::vector<KernelPlan::InPlace> in_place_;
};

// The kernel that runs a tile program in `blocks` blocks of nearly equal size. `status_argument` is
// the argument with the launch's status word, for plans with KernelPlan::float_status.
std::unique_ptr<Kernel> make_tile_kernel(TileProgram program, int blocks,
                                         std::optional<size_t> status_argument = std::nullopt);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TILE_PROGRAM_H

// BroughtProgram: element-wise work on a core: ranges of its operands are brought to unified
// buffer, broadcast ones spread out, its instructions run on them there, and results go out again.
// Operands and results have two buffers each, as the prices count them, so that a tile can be
// brought while another is computed. Immutable; any thread, with a core of its own.
#ifndef KEEL_BACKENDS_NPU_PLANNED_BROUGHT_PROGRAM_H
#define KEEL_BACKENDS_NPU_PLANNED_BROUGHT_PROGRAM_H

#include <optional>
#include <string>
#include <vector>

#include "keel/backends/common/broadcast.h"
#include "keel/backends/common/tile_program.h"
#include "keel/backends/npu/planned/written_once.h"

namespace keel::npu {

// An operand or result of the program: where it is outside, and what the core holds of it.
struct BroughtOperand {
  // The kernel's argument; none: it stays on the core, as the product or reduction beside it does.
  std::optional<size_t> argument;
  Type type;
};

class BroughtProgram {
 public:
  // Over the elements of `shape`. `priced_instructions`: how many there are for the prices, which
  // want buffers for what lies between several.
  BroughtProgram(TileProgram program, const Shape& shape, std::vector<BroughtOperand> inputs,
                 std::vector<BroughtOperand> outputs, int64_t priced_instructions);

  // Returns the claims on unified buffer for tiles of `tile_elements`, in this order: for each
  // input, then each output, `buffers` claims (one if it stays on the core; none for an input of a
  // single element from outside); then one for the values between instructions.
  std::vector<Claim> claims(int64_t tile_elements, int buffers) const;

  // In the following, `first` is the number of the first of these claims on the core, and `buffer`
  // the one of place.buffers that a tile goes through.
  struct Place {
    Core& core;
    size_t first = 0;
    int64_t tile_elements = 0;
    int buffers = 2;
    int buffer = 0;
  };

  // Makes the buffers of the tile poison, and room for `count` elements.
  void begin(const Place& place, int64_t count) const;
  // Elements [begin, begin + count) of all operands, to where `at` elements are in the tile
  // already.
  void bring(const Place& place, void* const* args, int64_t begin, int64_t count, int64_t at) const;
  // Runs the instructions over the tile's elements; returns the status bits raised.
  uint32_t compute(const Place& place, void* const* args, int64_t count) const;
  // The results, from `at` in the tile, to elements [begin, begin + count) of the outputs.
  void take_out(const Place& place, void* const* args, int64_t begin, int64_t count, int64_t at,
                std::vector<WrittenOnce>& written) const;

  // Return where the core holds its part of an operand or of a result.
  char* input(const Place& place, size_t i) const;
  char* output(const Place& place, size_t i) const;
  std::vector<WrittenOnce> nothing_written() const;
  const std::vector<BroughtOperand>& outputs() const noexcept { return outputs_; }

 private:
  struct Source {
    bool scalar = false;
    std::optional<BroadcastReader> reader;  // of an operand that is broadcast
  };
  size_t buffers_of(const BroughtOperand& operand, int buffers) const;
  size_t claim_of(const Place& place, size_t operand) const;
  const BroughtOperand& operand(size_t i) const {
    return i < inputs_.size() ? inputs_[i] : outputs_[i - inputs_.size()];
  }
  bool claims_nothing(size_t operand) const {
    return operand < inputs_.size() && sources_[operand].scalar && inputs_[operand].argument;
  }

  TileProgram program_;
  std::vector<BroughtOperand> inputs_, outputs_;
  std::vector<Source> sources_;  // by input
  size_t between_ = 0;           // bytes between instructions, for each element of a tile
  int64_t elements_;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_BROUGHT_PROGRAM_H

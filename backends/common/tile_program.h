// TileProgram: an element-wise cluster (a `fused` node, or one element-wise node) as a short list
// of vector instructions and chains of such (vector_chain.h) that is run tile by tile: each tile's
// intermediates stay in a small register file, which is what a vector unit does with its unified
// buffer. Immutable once built; run() may be called from any number of threads on disjoint ranges.
#ifndef KEEL_BACKENDS_COMMON_TILE_PROGRAM_H
#define KEEL_BACKENDS_COMMON_TILE_PROGRAM_H

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "keel/backends/common/broadcast.h"
#include "keel/backends/common/kernel.h"
#include "keel/backends/common/tile_nodes.h"
#include "keel/backends/common/vector_call.h"
#include "keel/backends/common/vector_chain.h"

namespace keel {

// The instruction for an op with sources of dtype `in` (of the last one for select) and results of
// dtype `out`; null where the backend has none.
using InstructionLookup =
    std::function<VectorInstruction(std::string_view op, DType in, DType out)>;

// Returns the lookup's instruction for a node; null where it has none.
VectorInstruction instruction_for(const Node& node, const InstructionLookup& lookup);

// Tiles have a multiple of so many elements, which begins every register with a line of the cache.
inline constexpr int64_t kTileStep = 64;
// Parts of rows that are shorter are copied in less time than each is computed by itself.
inline constexpr int64_t kShortestPart = 32;
// Inputs and outputs of a body: pointers to so many are kept on the stack, and a tile of so many
// fits in the smallest unified buffer that a preset may have. Fusing makes far fewer (FuseLimits).
inline constexpr size_t kMostTileArguments = 48;

// Returns whether the lookup has an instruction for each op of an element-wise or fused node, or of
// a cluster's body, whether there are at most kMostTileArguments inputs and outputs, whether slices
// and what is joined have the iteration shape and rows of at least kShortestPart elements, and
// whether the register file has room for what is kept at once.
Support supports_tiles(const Node& node, const InstructionLookup& lookup);
Support supports_tiles(const Graph& body, const InstructionLookup& lookup);

// Rows and columns of an iteration shape seen as a matrix: its last dimension and all others.
struct TileRectangle {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
};

class TileProgram {
 public:
  // REQUIRES supports_tiles(node, lookup).
  TileProgram(const Node& node, const InstructionLookup& lookup);
  // Compiles the body of a cluster. REQUIRES supports_tiles(body, lookup).
  TileProgram(const Graph& body, const InstructionLookup& lookup);

  // Computes elements [begin, end) of every output. args: the inputs of the node or body, then its
  // outputs. Returns the status bits that saturating instructions raised.
  uint32_t run(void* const* args, int64_t begin, int64_t end) const;
  // Does the same for a rectangle, of whose input 0 only that piece is there: at args[0], with so
  // many elements from row to row. REQUIRES that input 0 has the iteration shape, and as the
  // following do a program that moves no parts of rows.
  uint32_t run_piece(void* const* args, const TileRectangle& piece, int64_t stride) const;

  // Elements [begin, end), of which alone there is room in the outputs, or of which alone input 0
  // has been brought. REQUIRES of the second that input 0 has the iteration shape.
  uint32_t run_into_piece(void* const* args, int64_t begin, int64_t end) const;
  uint32_t run_from_piece(void* const* args, int64_t begin, int64_t end) const;

  // `count` elements that have been brought, together with room for their results: each argument of
  // more than one element begins with the first of them, broadcast ones spread out. What lies
  // between instructions is kept in `registers`. REQUIRES smallest_register_bytes() of them.
  uint32_t run_brought(void* const* args, int64_t count, char* registers,
                       size_t register_bytes) const;
  size_t smallest_register_bytes() const noexcept { return result_registers_ * 8 * widest_; }
  // Returns what the registers of a tile take of the register file.
  size_t register_bytes() const noexcept { return register_count_ * register_stride_; }

  int64_t elements() const noexcept { return elements_; }
  // Returns whether parts of an argument's rows are read or written where they lie.
  bool moves_parts() const noexcept { return !parts_.empty(); }
  // Returns how many ops are computed, where a selection and the comparison that it alone reads are
  // one, and copies made of results.
  size_t instructions() const noexcept { return computed_; }
  int64_t tile_elements() const noexcept { return tile_; }
  const std::vector<KernelPlan::InPlace>& in_place() const noexcept { return in_place_; }

  static constexpr size_t kRegisterFileBytes = size_t{48} * 1024;
  // Room for rows that chains read again and again, behind the register file.
  static constexpr size_t kRowBytes = size_t{16} * 1024;
  // What the registers of a tile take together: half of a first cache of 32 KiB, so that registers
  // are still there for the next instruction after operands and results went by.
  static constexpr size_t kTileBytes = size_t{16} * 1024;
  // Outputs of at least as many bytes in all are stored past the caches, which they would only
  // flush: about what a core's share of the last level holds.
  static constexpr size_t kStreamedBytes = size_t{8} << 20;

 private:
  // kRow: what all rows of the iteration shape share. kColumn: an argument that has one element for
  // each row. kPart: a part of each row of a wider argument. kValue: what a chain hands on.
  // kGroup: what chains of one instruction leave for later ones, of the elements that they are at.
  enum class Place : uint8_t {
    kRegister,
    kArgument,
    kConstant,
    kRow,
    kColumn,
    kPart,
    kValue,
    kGroup
  };
  struct Operand {
    Place place = Place::kRegister;
    uint32_t index = 0;  // register, argument, row, part, group, or byte offset of the constant
    size_t element_size = 0;
    bool scalar = false;
    // Set for a register that a load fills from one row for all: the argument that has that row.
    int64_t row_of = -1;
    int64_t loaded_from = -1;  // the argument that a load fills the register from

    size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_size; }
  };
  struct Step {  // of a chain
    vector::ChainOp op = vector::ChainOp::kLoad;
    uint32_t sources = 0;
    Operand src[4];
    Operand dst;          // of a store
    bool leaves = false;  // as an instruction's
  };
  struct Instruction {
    VectorInstruction function = nullptr;
    // Set instead of the function where steps [first_step, first_step + steps) are run together:
    // those of a chain, or of several, one behind the other. So each group of elements goes through
    // all of them while it is in the first cache.
    vector::ChainInstruction chain = nullptr;
    uint32_t first_step = 0;
    uint32_t steps = 0;
    Operand dst;
    Operand src[3];
    uint32_t sources = 0;
    bool leaves = false;  // the result goes to an output and is not read again here
  };
  struct Load {  // of a broadcast input into a register, before the instruction `before`
    size_t before = 0;
    uint32_t argument = 0;
    uint32_t dst = 0;
    size_t element_size = 0;
    // Each row of the iteration shape reads the same. The register is then this load's alone, and
    // need not be filled again for another window that begins at the same place of a row.
    bool one_row = false;
    BroadcastReader reader;
  };
  // A row that all rows of the iteration shape share and chains read. Its room is filled once for a
  // run, with as many copies of the row as make up the period, and ends with what is at its
  // beginning, as ChainOperand asks.
  struct Row {
    uint32_t argument = 0;
    size_t at = 0;  // byte of the room for rows
    size_t element_size = 0;
    size_t period = 0;  // elements
  };
  struct Part {
    uint32_t argument = 0;
    int64_t begin = 0, width = 0;  // elements of the argument's rows
  };
  // One pass through the instructions works on this: rows of `count` elements, the first beginning
  // at element `begin` of the iteration shape, `pitch` elements from row to row (0: one row, which
  // may run over several of the iteration shape).
  struct Window {
    int64_t begin = 0, count = 0, rows = 1, pitch = 0;
    int64_t column = 0;
    // Whether rows that all share are in their registers from a window before, as long and from the
    // same place of a row on.
    bool has_rows = false;
    size_t register_pitch = 0;  // elements from row to row in a register
    // Set where argument 0 is only a piece: its rows lie so many elements apart, and the window
    // begins at this element of it; else the stride is 0.
    int64_t piece_stride = 0, piece_at = 0;
    // Set where the outputs are only a piece: the element that it begins with; else -1.
    int64_t results_begin = -1;
    // Where all arguments are brought: the window's first element among those that are; else -1.
    int64_t brought_at = -1;
    size_t register_stride = 0;  // bytes from register to register
    int64_t rows_begin = 0;      // the element that the rooms of rows begin with
  };
  struct Lines {  // the first row of an operand, and bytes from row to row
    char* at = nullptr;
    size_t step = 0;
  };
  struct ChainRows;
  // Nodes whose chains are run together, and their steps: of each one, a store, and before the
  // first of a chain a load. A chain may have one node alone.
  static constexpr size_t kMostNodesTogether = 2 * kMostChainNodes;
  static constexpr size_t kMostSteps = 3 * kMostNodesTogether;
  static constexpr size_t kMostGroups = 16;
  class Builder;
  TileProgram(TileNodes cluster, const InstructionLookup& lookup);

  void run_window(void* const* args, const Window& window, char* registers, uint32_t* status) const;
  Lines lines_of(const Operand& operand, void* const* args, const Window& window,
                 char* registers) const;
  Lines row_lines(const Operand& operand, void* const* args, const Window& window,
                  char* registers) const;
  Lines argument_lines(const Operand& operand, void* const* args, const Window& window) const;
  Lines register_lines(const Operand& operand, void* const* args, const Window& window,
                       char* registers) const;
  void run_instruction(const Instruction& instruction, void* const* args, const Window& window,
                       char* registers, uint32_t* status) const;
  void run_chain(const Instruction& instruction, void* const* args, const Window& window,
                 char* registers) const;
  void begin_chain(const Instruction& instruction, void* const* args, const Window& window,
                   char* registers, ChainRows& rows) const;
  static size_t bytes_ahead(size_t row_bytes, size_t row_step);
  void set_chain_operand(const Operand& operand, const Lines& lines, const Window& window,
                         vector::ChainOperand& to) const;
  void fill_rows(void* const* args, int64_t elements, char* registers) const;
  uint32_t run_rows(void* const* args, const TileRectangle& piece, const Window& first,
                    char* registers) const;
  uint32_t run_row_by_row(void* const* args, int64_t begin, int64_t end) const;
  void load(const Load& load, void* const* args, const Window& window, char* registers) const;
  uint32_t run_flat(void* const* args, int64_t begin, int64_t end, bool input_piece,
                    bool result_piece) const;
  bool streams(void* const* args, const Operand& dst, bool leaves, const Window& window) const;
  // Returns whether the rows of a window follow each other there without a gap, or are one element.
  static bool are_joined(const Operand& operand, const Lines& lines, const Window& window);

  int64_t elements_ = 0;
  int64_t row_elements_ = 1;  // of the iteration shape's last dimension
  int64_t tile_ = 0;
  size_t register_count_ = 0;
  size_t register_stride_ = 0;
  size_t widest_ = 1;  // bytes of an element
  // By register: the number it has among those that hold results of instructions, of which there
  // are so many.
  std::vector<uint32_t> result_register_;
  size_t result_registers_ = 0;
  size_t inputs_ = 0;
  bool large_ = false;   // outputs of kStreamedBytes or more
  size_t computed_ = 0;  // ops and copies
  std::vector<Instruction> instructions_;
  std::vector<Step> steps_;
  std::vector<Row> rows_;
  std::vector<Part> parts_;
  std::vector<Load> loads_;
  std::vector<char> constants_;
  std::vector<KernelPlan::InPlace> in_place_;
};

// Returns the kernel that runs a tile program in `blocks` blocks of nearly equal size.
// `status_argument` is the argument with the launch's status word, for plans with
// KernelPlan::float_status.
std::unique_ptr<Kernel> make_tile_kernel(TileProgram program, int blocks,
                                         std::optional<size_t> status_argument = std::nullopt);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TILE_PROGRAM_H

#include "keel/backends/common/tile_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include "keel/backends/common/float_status.h"
#include "keel/core/base/checked.h"
#include "keel/graph/ir/fused_body.h"

namespace keel {
namespace {

constexpr int64_t kShortRow = 256;

Support supports_one(const Node& node, const InstructionLookup& lookup) {
  if (!is_computed(node) || instruction_for(node, lookup) != nullptr) return {true, ""};
  if (slices_rows(node))
    return {false, "only slices of an operand's rows without a stride are read where they lie"};
  if (joins_rows(node))
    return {false, "only rows that concat joins are made where they are to lie"};
  return {false,
          std::string("no vector instruction for ") +
              name_of(node.inputs().empty() ? node.type().dtype : node.inputs().back().dtype())};
}

Support supports_moved_rows(const Node& node, const Shape& iteration) {
  const bool joins = is_row_join(node);
  if (!joins && !row_slice_of(node)) return {true, ""};
  const auto is_iterated = [&](const Value& v) { return v.shape() == iteration; };
  const Values parts = joins ? node.inputs().to_vector() : Values{node.output()};
  if (!std::all_of(parts.begin(), parts.end(), is_iterated))
    return {false, joins ? "what is joined has another shape" : "a slice is broadcast"};
  if (iteration.back() >= kShortestPart) return {true, ""};
  return {false, "rows of " + std::to_string(iteration.back()) + " elements are too short to be " +
                     (joins ? "made where they are to lie" : "read where they lie")};
}

// Says whether the register file has room for what a body keeps at once. Few nodes need no look at
// the program: each takes one register at most.
Support supports_registers(const Graph& body, const InstructionLookup& lookup) {
  constexpr size_t kAlwaysFit = TileProgram::kRegisterFileBytes / (kTileStep * sizeof(double));
  if (body.size() <= kAlwaysFit) return {true, ""};
  const size_t bytes = TileProgram(body, lookup).register_bytes();
  if (bytes <= TileProgram::kRegisterFileBytes) return {true, ""};
  return {false, "what it keeps at once of " + std::to_string(kTileStep) + " elements takes " +
                     std::to_string(bytes) + " bytes, more than registers of " +
                     std::to_string(TileProgram::kRegisterFileBytes)};
}

}  // namespace

VectorInstruction instruction_for(const Node& node, const InstructionLookup& lookup) {
  if (node.types().size() != 1 || node.inputs().empty() || node.inputs().size() > 3) return nullptr;
  return lookup(node.op_name(), node.inputs().back().dtype(), node.type().dtype);
}

Support supports_tiles(const Node& node, const InstructionLookup& lookup) {
  if (!node.bodies().empty()) return supports_tiles(*node.bodies()[0], lookup);
  if (!node.has(kElementwise)) return {false, "not element-wise"};
  return supports_one(node, lookup);
}

Support supports_tiles(const Graph& body, const InstructionLookup& lookup) {
  const size_t arguments = body.inputs().size() + body.outputs().size();
  if (arguments > kMostTileArguments) {
    return {false, std::to_string(arguments) + " inputs and outputs, more than " +
                       std::to_string(kMostTileArguments)};
  }
  for (const Node& inner : body.nodes()) {
    if (Support s = supports_one(inner, lookup); !s.supported) return s;
    if (Support s = supports_moved_rows(inner, iteration_shape(body)); !s.supported) return s;
  }
  return supports_registers(body, lookup);
}

namespace {

// Makes streamed (non-temporal) stores visible before whatever the caller stores next. The release
// store that hands results to other threads does not order them; a read-modify-write does.
// (A fence would as well, but ThreadSanitizer knows none.)
void order_streamed_stores() {
  std::atomic<int> word{0};
  word.exchange(1, std::memory_order_seq_cst);
}

}  // namespace

// The register file has room for kTileStep elements of each register at least (supports_tiles).
uint32_t TileProgram::run_flat(void* const* args, int64_t begin, int64_t end, bool input_piece,
                               bool result_piece) const {
  if (begin >= end) return 0;  // where the shape is empty, rows may not be read
  uint32_t status = 0;
  alignas(64) char registers[kRegisterFileBytes + kRowBytes];
  Window window;
  window.rows_begin = begin / row_elements_ * row_elements_;
  fill_rows(args, end - window.rows_begin, registers);
  window.piece_stride = input_piece ? 1 : 0;
  window.results_begin = result_piece ? begin : -1;
  window.register_stride = register_stride_;
  for (window.begin = begin; window.begin < end; window.begin += tile_) {
    window.count = std::min(tile_, end - window.begin);
    window.piece_at = window.begin - begin;
    window.has_rows = window.begin != begin && tile_ % row_elements_ == 0;
    run_window(args, window, registers, &status);
  }
  if (large_ && !result_piece) order_streamed_stores();
  return status;
}

// Parts of rows before and behind the whole ones, if any, are rectangles of their own.
uint32_t TileProgram::run_row_by_row(void* const* args, int64_t begin, int64_t end) const {
  uint32_t status = 0;
  alignas(64) char registers[kRegisterFileBytes + kRowBytes];
  for (int64_t at = begin; at < end;) {
    TileRectangle piece{at / row_elements_, 1, at % row_elements_, 0};
    piece.columns = std::min(row_elements_ - piece.column, end - at);
    if (piece.columns == row_elements_) piece.rows = (end - at) / row_elements_;
    status |= run_rows(args, piece, Window(), registers);
    at += piece.rows * piece.columns;
  }
  if (large_) order_streamed_stores();
  return status;
}

// Windows have rows of their own, and are otherwise as `first` says.
uint32_t TileProgram::run_rows(void* const* args, const TileRectangle& piece, const Window& first,
                               char* registers) const {
  uint32_t status = 0;
  const int64_t widest = std::min(piece.columns, tile_);
  const int64_t pitch = (widest + kTileStep - 1) / kTileStep * kTileStep;
  const int64_t together = std::max<int64_t>(1, tile_ / std::max<int64_t>(1, pitch));
  Window window = first;
  window.pitch = row_elements_;
  window.register_pitch = static_cast<size_t>(pitch);
  window.register_stride = register_stride_;
  for (int64_t row = 0; row < piece.rows; row += together) {
    window.rows = std::min(together, piece.rows - row);
    for (int64_t column = 0; column < piece.columns; column += widest) {
      window.count = std::min(widest, piece.columns - column);
      window.column = piece.column + column;
      window.begin = (piece.row + row) * row_elements_ + window.column;
      window.piece_at = first.piece_at + row * first.piece_stride + column;
      run_window(args, window, registers, &status);
    }
  }
  return status;
}

uint32_t TileProgram::run(void* const* args, int64_t begin, int64_t end) const {
  if (moves_parts()) return run_row_by_row(args, begin, end);
  return run_flat(args, begin, end, false, false);
}

uint32_t TileProgram::run_into_piece(void* const* args, int64_t begin, int64_t end) const {
  return run_flat(args, begin, end, false, true);
}

uint32_t TileProgram::run_from_piece(void* const* args, int64_t begin, int64_t end) const {
  return run_flat(args, begin, end, true, false);
}

uint32_t TileProgram::run_brought(void* const* args, int64_t count, char* registers,
                                  size_t register_bytes) const {
  uint32_t status = 0;
  const size_t of_an_element = result_registers_ * widest_;
  const int64_t together =
      of_an_element == 0 ? count : static_cast<int64_t>(register_bytes / of_an_element / 8 * 8);
  Window window;
  window.register_stride = static_cast<size_t>(together) * widest_;
  for (int64_t at = 0; at < count; at += together) {
    window.brought_at = at;
    window.count = std::min(together, count - at);
    run_window(args, window, registers, &status);
  }
  return status;
}

uint32_t TileProgram::run_piece(void* const* args, const TileRectangle& piece,
                                int64_t stride) const {
  // Rows that follow each other are better taken as one long one, unless an instruction has a row
  // that all share brought between them.
  const bool flat = piece.columns == row_elements_ && stride == row_elements_ &&
                    (row_elements_ < kShortRow || loads_.empty());
  const int64_t first = piece.row * row_elements_ + piece.column;
  if (flat) return run_flat(args, first, first + piece.rows * piece.columns, true, false);
  alignas(64) char registers[kRegisterFileBytes + kRowBytes];
  Window window;
  window.piece_stride = stride;
  const uint32_t status = run_rows(args, piece, window, registers);
  if (large_) order_streamed_stores();
  return status;
}

// Streams nothing where an input lies at the same place: its lines are in the cache already.
bool TileProgram::streams(void* const* args, const Operand& dst, bool leaves,
                          const Window& window) const {
  if (!large_ || !leaves || window.results_begin >= 0 || window.brought_at >= 0) return false;
  const uint32_t argument = dst.place == Place::kPart ? parts_[dst.index].argument : dst.index;
  return std::find(args, args + inputs_, args[argument]) == args + inputs_;
}

TileProgram::Lines TileProgram::lines_of(const Operand& operand, void* const* args,
                                         const Window& window, char* registers) const {
  switch (operand.place) {
    case Place::kRegister:
      return register_lines(operand, args, window, registers);
    case Place::kArgument:
      return argument_lines(operand, args, window);
    case Place::kConstant:
      return {const_cast<char*>(constants_.data()) + operand.index, 0};
    case Place::kRow:
      return row_lines(operand, args, window, registers);
    case Place::kColumn: {
      char* base = static_cast<char*>(args[operand.index]);
      if (window.brought_at >= 0) return {base + operand.bytes(window.brought_at), 0};
      return {base + operand.bytes(window.begin / row_elements_),
              window.pitch == 0 ? 0 : operand.element_size};
    }
    case Place::kPart: {
      const Part& part = parts_[operand.index];
      const int64_t row = window.begin / row_elements_;
      return {static_cast<char*>(args[part.argument]) +
                  operand.bytes(row * part.width + part.begin + window.column),
              operand.bytes(part.width)};
    }
    case Place::kValue:
    case Place::kGroup:
      break;
  }
  return {};
}

TileProgram::Lines TileProgram::row_lines(const Operand& operand, void* const* args,
                                          const Window& window, char* registers) const {
  const Row& row = rows_[operand.index];
  auto* stored = static_cast<char*>(args[row.argument]);
  if (window.brought_at >= 0) return {stored + operand.bytes(window.brought_at), 0};
  // Between rows of its own, a row that all share is read where it lies.
  if (window.pitch != 0) return {stored + operand.bytes(window.column), 0};
  return {registers + kRegisterFileBytes + row.at, 0};
}

TileProgram::Lines TileProgram::argument_lines(const Operand& operand, void* const* args,
                                               const Window& window) const {
  char* base = static_cast<char*>(args[operand.index]);
  if (operand.scalar) return {base, 0};
  if (window.brought_at >= 0) return {base + operand.bytes(window.brought_at), 0};
  if (operand.index == 0 && window.piece_stride != 0) {
    return {base + operand.bytes(window.piece_at), operand.bytes(window.piece_stride)};
  }
  const bool is_piece = window.results_begin >= 0 && operand.index >= inputs_;
  return {base + operand.bytes(window.begin - (is_piece ? window.results_begin : 0)),
          operand.bytes(window.pitch)};
}

TileProgram::Lines TileProgram::register_lines(const Operand& operand, void* const* args,
                                               const Window& window, char* registers) const {
  if (window.brought_at >= 0) {
    if (operand.loaded_from >= 0) {
      return {static_cast<char*>(args[operand.loaded_from]) + operand.bytes(window.brought_at), 0};
    }
    return {registers + result_register_[operand.index] * window.register_stride, 0};
  }
  // Between rows of its own, a row that all share is read where it lies.
  if (operand.row_of >= 0 && window.pitch != 0) {
    return {static_cast<char*>(args[operand.row_of]) + operand.bytes(window.column), 0};
  }
  return {registers + operand.index * window.register_stride,
          window.register_pitch * operand.element_size};
}

void TileProgram::load(const Load& load, void* const* args, const Window& window,
                       char* registers) const {
  const bool is_there = window.pitch != 0 || window.has_rows;
  if (window.brought_at >= 0 || (load.one_row && is_there)) return;
  char* dst = registers + load.dst * window.register_stride;
  for (int64_t row = 0; row < window.rows; ++row) {
    load.reader.read(args[load.argument], dst, window.begin + row * window.pitch, window.count);
    dst += window.register_pitch * load.element_size;
  }
}

void TileProgram::fill_rows(void* const* args, int64_t elements, char* registers) const {
  for (const Row& row : rows_) {
    char* room = registers + kRegisterFileBytes + row.at;
    const auto most = static_cast<size_t>(elements);
    const size_t all = std::min(most, row.period + vector::kChainGroup) * row.element_size;
    size_t filled = std::min(all, static_cast<size_t>(row_elements_) * row.element_size);
    std::memcpy(room, args[row.argument], filled);
    for (size_t more = 0; filled < all; filled += more) {
      more = std::min(filled, all - filled);
      std::memcpy(room + filled, room, more);
    }
  }
}

// The steps of chains for a row of a window, the first to begin with.
struct TileProgram::ChainRows {
  std::span<const Step> from;
  vector::ChainStep steps[kMostSteps];
  size_t source_bytes[kMostSteps][4];  // from row to row
  size_t dst_bytes[kMostSteps];
  bool joined = true;  // rows follow each other, wherever they lie
  alignas(64) char groups[kMostGroups * vector::kChainGroup * sizeof(double)];

  // Rooms lie side by side, so that few of them fill different sets of the first cache.
  char* room_of(const Operand& group) {
    return groups + group.index * vector::kChainGroup * group.element_size;
  }

  void next() {
    for (size_t i = 0; i < from.size(); ++i) {
      for (uint32_t s = 0; s < from[i].sources; ++s) {
        vector::ChainOperand& operand = steps[i].operands[s];
        operand.at = static_cast<const char*>(operand.at) + source_bytes[i][s];
        operand.offset = 0;
      }
      if (from[i].op == vector::ChainOp::kStore) {
        steps[i].dst = static_cast<char*>(steps[i].dst) + dst_bytes[i];
      }
    }
  }
};

// Where a chain reads several operands in turns, it waits for memory in spite of what processors
// ask for by themselves. What it needs next is some way ahead in a row, or in the next one, where
// rows have gaps between them. 1,024 to 4,096 bytes ahead were as quick as each other.
size_t TileProgram::bytes_ahead(size_t row_bytes, size_t row_step) {
  constexpr size_t kAhead = 2048;
  const bool has_gap = row_step > row_bytes;
  return has_gap && row_bytes < kAhead ? row_step : kAhead;
}

// This sets members one by one where they stay: copying them together would wait for each.
void TileProgram::set_chain_operand(const Operand& operand, const Lines& lines,
                                    const Window& window, vector::ChainOperand& to) const {
  to.at = lines.at;
  to.scalar = operand.scalar;
  to.period = operand.place == Place::kGroup ? 0 : vector::ChainOperand::kNeverRepeats;
  to.offset = 0;
  to.run = 1;
  to.ahead = 0;
  if (window.brought_at >= 0) return;
  if (operand.place == Place::kArgument || operand.place == Place::kPart) {
    to.ahead = bytes_ahead(operand.bytes(window.count), lines.step);
  } else if (operand.place == Place::kRow && window.pitch == 0) {
    to.period = rows_[operand.index].period;
    to.offset = static_cast<size_t>(window.begin - window.rows_begin) % to.period;
  } else if (operand.place == Place::kColumn && window.pitch == 0) {
    to.run = static_cast<size_t>(row_elements_);
    to.offset = static_cast<size_t>(window.begin % row_elements_);
  } else if (operand.place == Place::kColumn) {
    to.scalar = true;
  }
}

void TileProgram::begin_chain(const Instruction& instruction, void* const* args,
                              const Window& window, char* registers, ChainRows& rows) const {
  rows.from = {steps_.data() + instruction.first_step, instruction.steps};
  for (size_t i = 0; i < rows.from.size(); ++i) {
    const Step& step = rows.from[i];
    rows.steps[i].op = step.op;
    for (uint32_t s = 0; s < step.sources; ++s) {
      Lines lines = lines_of(step.src[s], args, window, registers);
      if (step.src[s].place == Place::kGroup) lines.at = rows.room_of(step.src[s]);
      set_chain_operand(step.src[s], lines, window, rows.steps[i].operands[s]);
      rows.source_bytes[i][s] = lines.step;
      rows.joined = rows.joined && are_joined(step.src[s], lines, window);
    }
    if (step.op != vector::ChainOp::kStore) continue;
    Lines dst = lines_of(step.dst, args, window, registers);
    rows.steps[i].for_group = step.dst.place == Place::kGroup;
    if (rows.steps[i].for_group) dst.at = rows.room_of(step.dst);
    rows.steps[i].dst = dst.at;
    rows.steps[i].streams = streams(args, step.dst, step.leaves, window);
    rows.dst_bytes[i] = dst.step;
    rows.joined = rows.joined && are_joined(step.dst, dst, window);
  }
}

bool TileProgram::are_joined(const Operand& operand, const Lines& lines, const Window& window) {
  if (operand.scalar || operand.place == Place::kValue || operand.place == Place::kGroup)
    return true;
  return operand.place != Place::kColumn && lines.step == operand.bytes(window.count);
}

void TileProgram::run_chain(const Instruction& instruction, void* const* args, const Window& window,
                            char* registers) const {
  ChainRows rows;
  begin_chain(instruction, args, window, registers, rows);
  const std::span<vector::ChainStep> steps(rows.steps, instruction.steps);
  const auto count = static_cast<size_t>(window.count);
  if (rows.joined) return instruction.chain(steps, count * static_cast<size_t>(window.rows));
  for (int64_t row = 0; row < window.rows; ++row) {
    instruction.chain(steps, count);
    rows.next();
  }
}

void TileProgram::run_instruction(const Instruction& instruction, void* const* args,
                                  const Window& window, char* registers, uint32_t* status) const {
  VectorCall call;
  const Lines dst = lines_of(instruction.dst, args, window, registers);
  bool joined = are_joined(instruction.dst, dst, window);
  Lines src[3];
  for (uint32_t s = 0; s < instruction.sources; ++s) {
    src[s] = lines_of(instruction.src[s], args, window, registers);
    call.scalar[s] = instruction.src[s].scalar;
    joined = joined && are_joined(instruction.src[s], src[s], window);
  }
  const auto rows = static_cast<size_t>(joined ? 1 : window.rows);
  call.n = static_cast<size_t>(joined ? window.count * window.rows : window.count);
  call.streams = streams(args, instruction.dst, instruction.leaves, window);
  call.status = status;
  for (size_t row = 0; row < rows; ++row) {
    call.dst = dst.at + row * dst.step;
    for (uint32_t s = 0; s < instruction.sources; ++s) call.src[s] = src[s].at + row * src[s].step;
    instruction.function(call);
  }
}

void TileProgram::run_window(void* const* args, const Window& window, char* registers,
                             uint32_t* status) const {
  auto next_load = loads_.begin();
  for (size_t i = 0; i < instructions_.size(); ++i) {
    for (; next_load != loads_.end() && next_load->before == i; ++next_load) {
      load(*next_load, args, window, registers);
    }
    if (instructions_[i].chain != nullptr)
      run_chain(instructions_[i], args, window, registers);
    else
      run_instruction(instructions_[i], args, window, registers, status);
  }
}

namespace {

class TileKernel final : public Kernel {
 public:
  TileKernel(TileProgram program, int blocks, std::optional<size_t> status_argument)
      : program_(std::move(program)), blocks_(blocks), status_argument_(status_argument) {
    const int64_t even = (program_.elements() + blocks_ - 1) / std::max(1, blocks_);
    per_block_ = (even + kTileStep - 1) / kTileStep * kTileStep;
  }
  int blocks(int) const override { return blocks_; }
  void run(void* const* args, int, int block) const override {
    const int64_t begin = std::min(block * per_block_, program_.elements());
    const uint32_t status =
        program_.run(args, begin, std::min(begin + per_block_, program_.elements()));
    if (status_argument_) raise_float_status(args[*status_argument_], status);
  }

 private:
  TileProgram program_;
  int blocks_;
  int64_t per_block_ = 0;
  std::optional<size_t> status_argument_;
};

}  // namespace

std::unique_ptr<Kernel> make_tile_kernel(TileProgram program, int blocks,
                                         std::optional<size_t> status_argument) {
  return std::make_unique<TileKernel>(std::move(program), std::max(1, blocks), status_argument);
}

}  // namespace keel

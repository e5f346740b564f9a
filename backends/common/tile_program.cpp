#include "keel/backends/common/tile_program.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "keel/backends/common/float_status.h"
#include "keel/core/base/checked.h"

namespace keel {
namespace {

constexpr int64_t kTileStep = 64;  // elements; keeps every register aligned to a cache line
constexpr int64_t kLargestTile = 4096;
constexpr int64_t kShortRow = 256;

// A broadcast inside a cluster is no work of its own: its input, which comes from outside or is a
// constant, is read in the cluster's shape anyway.
bool is_broadcast(const Node& node) {
  return node.has(kElementwise) && node.has(kMovement) && node.input(0).node().has(kSource);
}

bool is_instruction(const Node& node) { return !node.has(kSource | kView) && !is_broadcast(node); }

VectorInstruction find(const Node& node, const InstructionLookup& lookup) {
  if (node.types().size() != 1 || node.inputs().empty() || node.inputs().size() > 3) return nullptr;
  return lookup(node.op_name(), node.inputs().back().dtype(), node.type().dtype);
}

Support supports_one(const Node& node, const InstructionLookup& lookup) {
  if (!is_instruction(node) || find(node, lookup) != nullptr) return {true, ""};
  return {false,
          std::string("no vector instruction for ") +
              name_of(node.inputs().empty() ? node.type().dtype : node.inputs().back().dtype())};
}

}  // namespace

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
  }
  return {true, ""};
}

// Turns the nodes of a cluster into instructions, gives their results registers, and writes outputs
// in place of registers where nothing is lost by it.
class TileProgram::Builder {
 public:
  Builder(TileProgram& program, const InstructionLookup& lookup)
      : program_(program), lookup_(lookup) {}

  void build(const Node& node) {
    if (!node.bodies().empty()) return build(*node.bodies()[0]);
    collect_single(node);
    build();
  }
  void build(const Graph& body) {
    collect_body(body);
    build();
  }

 private:
  void build() {
    program_.elements_ = shape_.num_elements();
    program_.row_elements_ = shape_.rank() == 0 ? 1 : shape_.back();
    merge_neighbours();
    number_uses();
    for (size_t i = 0; i < nodes_.size(); ++i) add_instruction(i);
    copy_unwritten_outputs();
    measure_outputs();
    choose_tile();
    number_result_registers();
    find_in_place();
  }

  struct Named {
    const Node* node;  // null for a copy of `inputs[0]` to an output
    std::vector<Value> inputs;
    Value result;
    const char* merged = nullptr;  // the instruction that does this node's op and another's at once
  };

  void collect_single(const Node& node) {
    shape_ = node.type().shape;
    program_.inputs_ = node.inputs().size();
    for (size_t i = 0; i < node.inputs().size(); ++i) {
      argument_[node.input(i)] = static_cast<uint32_t>(i);
    }
    inputs_ = node.inputs().to_vector();
    nodes_.push_back({&node, node.inputs().to_vector(), node.output()});
    outputs_.push_back(node.output());
  }

  void collect_body(const Graph& body) {
    shape_ = body.outputs()[0].shape();
    program_.inputs_ = body.inputs().size();
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      argument_[body.inputs()[i]] = static_cast<uint32_t>(i);
    }
    inputs_ = body.inputs();
    for (const Node& inner : body.nodes()) {
      if (inner.has(kView) || is_broadcast(inner)) alias_[inner.output()] = resolve(inner.input(0));
      if (!is_instruction(inner)) continue;
      Named named{&inner, {}, inner.output()};
      for (const Value& v : inner.inputs()) named.inputs.push_back(resolve(v));
      nodes_.push_back(std::move(named));
    }
    for (const Value& v : body.outputs()) outputs_.push_back(resolve(v));
  }

  Value resolve(Value v) const {
    const auto it = alias_.find(v);
    return it == alias_.end() ? v : it->second;
  }

  // Returns the instruction for a sum or difference one of whose operands is a product or, in
  // front, a difference: it rounds in between as the two would, and passes over the data once.
  static const char* name_of_merged(const Node& node, size_t operand, const Node& inner) {
    if (inner.op_name() == "mul") {
      if (node.op_name() == "add") return "mul_add";
      if (node.op_name() == "sub") return operand == 0 ? "mul_sub" : "sub_mul";
    }
    const bool twice = inner.op_name() == "sub" && node.op_name() == "sub";
    return twice && operand == 0 ? "sub_sub" : nullptr;
  }

  size_t times_used(const Value& v) const {
    auto times = static_cast<size_t>(std::count(outputs_.begin(), outputs_.end(), v));
    for (const Named& n : nodes_) {
      times += static_cast<size_t>(std::count(n.inputs.begin(), n.inputs.end(), v));
    }
    return times;
  }

  void merge_neighbours() {
    for (size_t at = 0; at < nodes_.size(); ++at) {
      for (size_t i = 0; i < nodes_[at].inputs.size() && nodes_[at].merged == nullptr; ++i) {
        const Value inner = nodes_[at].inputs[i];
        const auto from = std::find_if(nodes_.begin(), nodes_.end(),
                                       [&](const Named& n) { return n.result == inner; });
        if (from == nodes_.end() || from->merged != nullptr) continue;
        const char* merged = name_of_merged(*nodes_[at].node, i, *from->node);
        const DType dtype = nodes_[at].result.dtype();
        if (merged == nullptr || lookup_(merged, dtype, dtype) == nullptr) continue;
        if (times_used(inner) != 1) continue;
        nodes_[at].inputs = {from->inputs[0], from->inputs[1], nodes_[at].inputs[1 - i]};
        nodes_[at].merged = merged;
        nodes_.erase(from);
        --at;
      }
    }
  }

  void number_uses() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Value& v : nodes_[i].inputs) last_use_[v] = i;
    }
    // An output goes straight to its memory; the first of several that share a value, the others
    // are copied.
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const bool computed = std::any_of(nodes_.begin(), nodes_.end(),
                                        [&](const Named& n) { return n.result == outputs_[o]; });
      if (computed && !output_of_.contains(outputs_[o])) output_of_[outputs_[o]] = o;
    }
  }

  uint32_t take_register() {
    if (free_.empty()) return static_cast<uint32_t>(program_.register_count_++);
    const uint32_t r = free_.back();
    free_.pop_back();
    return r;
  }

  uint32_t output_argument(size_t output) const {
    return static_cast<uint32_t>(program_.inputs_ + output);
  }

  Operand operand(const Value& v, size_t at) {
    if (const auto it = known_.find(v); it != known_.end()) return it->second;
    const size_t size = size_of(v.dtype());
    widest_ = std::max(widest_, size);
    Operand operand;
    operand.element_size = size;
    if (const auto it = argument_.find(v); it != argument_.end()) {
      const Shape& own = v.shape();
      operand.place = Place::kArgument;
      operand.index = it->second;
      if (own.num_elements() == 1)
        operand.scalar = true;
      else if (own.num_elements() != program_.elements_)
        operand = load(v, it->second, at);
    } else {
      operand = constant(v);
    }
    return known_[v] = operand;
  }

  Operand load(const Value& v, uint32_t argument, size_t at) {
    Operand operand;
    operand.element_size = size_of(v.dtype());
    const bool one_row = v.shape().num_elements() == shape_.back() && v.shape().back() != 1;
    operand.index = one_row ? static_cast<uint32_t>(program_.register_count_++) : take_register();
    if (one_row) operand.row_of = argument;
    operand.loaded_from = argument;
    program_.loads_.push_back({at, argument, operand.index, operand.element_size, one_row,
                               BroadcastReader(v.shape(), shape_, operand.element_size)});
    return operand;
  }

  // Scalar constants are stored once and read as scalars; the fuser keeps larger ones outside as
  // inputs.
  Operand constant(const Value& v) {
    const Tensor& value = v.node().as<ConstantAttributes>().value;
    Operand operand;
    operand.place = Place::kConstant;
    operand.element_size = size_of(v.dtype());
    operand.scalar = true;
    operand.index = static_cast<uint32_t>(align_up(program_.constants_.size(), 8));
    program_.constants_.resize(operand.index + operand.element_size);
    std::memcpy(program_.constants_.data() + operand.index, value.raw(), operand.element_size);
    return operand;
  }

  void add_instruction(size_t at) {
    const Named& named = nodes_[at];
    Instruction instruction;
    const DType dtype = named.result.dtype();
    instruction.function =
        named.merged != nullptr ? lookup_(named.merged, dtype, dtype) : find(*named.node, lookup_);
    instruction.sources = static_cast<uint32_t>(named.inputs.size());
    for (size_t s = 0; s < named.inputs.size(); ++s) {
      instruction.src[s] = operand(named.inputs[s], at);
    }
    Operand dst;
    dst.element_size = size_of(named.result.dtype());
    widest_ = std::max(widest_, dst.element_size);
    if (const auto it = output_of_.find(named.result); it != output_of_.end()) {
      dst.place = Place::kArgument;
      dst.index = output_argument(it->second);
      writer_[it->second] = at;
      instruction.leaves = !last_use_.contains(named.result);
    } else {
      dst.index = take_register();
    }
    known_[named.result] = dst;
    instruction.dst = dst;
    program_.instructions_.push_back(instruction);
    release_registers(at);
  }

  void release_registers(size_t at) {
    for (const Value& v : nodes_[at].inputs) {
      const Operand& operand = known_.at(v);
      if (operand.place != Place::kRegister || last_use_[v] != at) continue;
      if (operand.row_of >= 0) continue;  // another window reads it, too
      const bool output_later = std::find(outputs_.begin(), outputs_.end(), v) != outputs_.end();
      const bool freed = std::find(free_.begin(), free_.end(), operand.index) != free_.end();
      if (!output_later && !freed) free_.push_back(operand.index);
    }
  }

  // Outputs that are inputs, constants or another output.
  void copy_unwritten_outputs() {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const auto it = output_of_.find(outputs_[o]);
      if (it != output_of_.end() && it->second == o) continue;
      Instruction copy;
      copy.function = lookup_("copy", outputs_[o].dtype(), outputs_[o].dtype());
      copy.sources = 1;
      copy.src[0] = operand(outputs_[o], program_.instructions_.size());
      last_use_[outputs_[o]] = program_.instructions_.size();
      copy.dst = {Place::kArgument, output_argument(o), size_of(outputs_[o].dtype()), false};
      writer_[o] = program_.instructions_.size();
      copy.leaves = true;
      program_.instructions_.push_back(copy);
    }
  }

  void measure_outputs() {
    size_t bytes = 0;
    for (const Value& v : outputs_) bytes += size_of(v.dtype());
    program_.large_ =
        bytes * static_cast<size_t>(program_.elements_) >= TileProgram::kStreamedBytes;
  }

  void choose_tile() {
    const size_t registers = std::max<size_t>(1, program_.register_count_);
    const auto fits = static_cast<int64_t>(kTileBytes / (registers * widest_));
    program_.tile_ = std::clamp(fits / kTileStep * kTileStep, kTileStep, kLargestTile);
    program_.register_stride_ = static_cast<size_t>(program_.tile_) * widest_;
    program_.widest_ = widest_;
  }

  void number_result_registers() {
    constexpr uint32_t kNone = ~uint32_t{0};
    program_.result_register_.assign(program_.register_count_, kNone);
    for (const Instruction& instruction : program_.instructions_) {
      if (instruction.dst.place != Place::kRegister) continue;
      uint32_t& number = program_.result_register_[instruction.dst.index];
      if (number == kNone) number = static_cast<uint32_t>(program_.result_registers_++);
    }
  }

  // An output may take over a full-size input that no instruction reads after the one that writes
  // the output. A node may have one value as several inputs: each has its pair.
  void find_in_place() {
    for (size_t input = 0; input < inputs_.size(); ++input) {
      const Value& value = inputs_[input];
      if (value.shape().num_elements() != program_.elements_) continue;
      for (const auto& [output, at] : writer_) {
        if (size_of(outputs_[output].dtype()) != size_of(value.dtype())) continue;
        const auto last = last_use_.find(value);
        if (last != last_use_.end() && last->second <= at) {
          program_.in_place_.push_back({output, input});
        }
      }
    }
    std::sort(program_.in_place_.begin(), program_.in_place_.end(),
              [](const auto& a, const auto& b) {
                return std::pair(a.output, a.input) < std::pair(b.output, b.input);
              });
  }

  TileProgram& program_;
  const InstructionLookup& lookup_;
  Shape shape_;
  std::vector<Named> nodes_;
  Values inputs_;
  std::vector<Value> outputs_;
  std::unordered_map<Value, uint32_t, ValueHash> argument_;
  std::unordered_map<Value, Value, ValueHash> alias_;
  std::unordered_map<Value, size_t, ValueHash> last_use_;
  std::unordered_map<Value, size_t, ValueHash> output_of_;
  std::unordered_map<Value, Operand, ValueHash> known_;
  std::unordered_map<size_t, size_t> writer_;  // output -> instruction
  std::vector<uint32_t> free_;
  size_t widest_ = 1;
};

TileProgram::TileProgram(const Node& node, const InstructionLookup& lookup) {
  Builder(*this, lookup).build(node);
}

TileProgram::TileProgram(const Graph& body, const InstructionLookup& lookup) {
  Builder(*this, lookup).build(body);
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

// Registers beyond the file's size (many values, 64 elements each) still fit: a cluster has at most
// 32 instructions (graph/passes/fuse_clusters.h).
uint32_t TileProgram::run_flat(void* const* args, int64_t begin, int64_t end, bool input_piece,
                               bool result_piece) const {
  uint32_t status = 0;
  alignas(64) char registers[kRegisterFileBytes];
  Window window;
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

uint32_t TileProgram::run(void* const* args, int64_t begin, int64_t end) const {
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
  uint32_t status = 0;
  alignas(64) char registers[kRegisterFileBytes];
  // Rows that follow each other are better taken as one long one, unless a row that all share is
  // read between them.
  const bool flat = piece.columns == row_elements_ && stride == row_elements_ &&
                    (row_elements_ < kShortRow || loads_.empty());
  const int64_t rows = flat ? 1 : piece.rows;
  const int64_t columns = flat ? piece.rows * piece.columns : piece.columns;
  const int64_t widest = std::min(columns, tile_);
  const int64_t pitch = (widest + kTileStep - 1) / kTileStep * kTileStep;
  const int64_t together = std::max<int64_t>(1, tile_ / std::max<int64_t>(1, pitch));
  for (int64_t row = 0; row < rows; row += together) {
    for (int64_t column = 0; column < columns; column += widest) {
      Window window;
      window.count = std::min(widest, columns - column);
      window.rows = std::min(together, rows - row);
      window.column = piece.column + column;
      window.pitch = flat ? 0 : row_elements_;
      window.begin = (piece.row + row) * row_elements_ + window.column;
      window.register_pitch = static_cast<size_t>(pitch);
      window.register_stride = register_stride_;
      window.piece_stride = stride;
      window.piece_at = row * stride + column;
      window.has_rows = flat && column != 0 && widest % row_elements_ == 0;
      run_window(args, window, registers, &status);
    }
  }
  if (large_) order_streamed_stores();
  return status;
}

// Streams nothing where an input lies at the same place: its lines are in the cache already.
bool TileProgram::streams(void* const* args, const Instruction& instruction) const {
  return large_ && instruction.leaves &&
         std::find(args, args + inputs_, args[instruction.dst.index]) == args + inputs_;
}

TileProgram::Lines TileProgram::lines_of(const Operand& operand, void* const* args,
                                         const Window& window, char* registers) const {
  const size_t size = operand.element_size;
  const auto elements = [&](int64_t count) { return static_cast<size_t>(count) * size; };
  if (operand.place == Place::kConstant) {
    return {const_cast<char*>(constants_.data()) + operand.index, 0};
  }
  if (operand.place == Place::kArgument) {
    char* base = static_cast<char*>(args[operand.index]);
    if (operand.scalar) return {base, 0};
    if (window.brought_at >= 0) return {base + elements(window.brought_at), 0};
    if (operand.index == 0 && window.piece_stride != 0) {
      return {base + elements(window.piece_at), elements(window.piece_stride)};
    }
    if (window.results_begin >= 0 && operand.index >= inputs_) {
      return {base + elements(window.begin - window.results_begin), 0};
    }
    return {base + elements(window.begin), elements(window.pitch)};
  }
  if (window.brought_at >= 0) {
    if (operand.loaded_from >= 0) {
      return {static_cast<char*>(args[operand.loaded_from]) + elements(window.brought_at), 0};
    }
    return {registers + result_register_[operand.index] * window.register_stride, 0};
  }
  // Between rows of its own, a row that all share is read where it lies.
  if (operand.row_of >= 0 && window.pitch != 0) {
    return {static_cast<char*>(args[operand.row_of]) + elements(window.column), 0};
  }
  return {registers + operand.index * window.register_stride, window.register_pitch * size};
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

void TileProgram::run_window(void* const* args, const Window& window, char* registers,
                             uint32_t* status) const {
  auto next_load = loads_.begin();
  for (size_t i = 0; i < instructions_.size(); ++i) {
    for (; next_load != loads_.end() && next_load->before == i; ++next_load) {
      load(*next_load, args, window, registers);
    }
    const Instruction& instruction = instructions_[i];
    VectorCall call;
    const Lines dst = lines_of(instruction.dst, args, window, registers);
    Lines src[3];
    for (uint32_t s = 0; s < instruction.sources; ++s) {
      src[s] = lines_of(instruction.src[s], args, window, registers);
      call.scalar[s] = instruction.src[s].scalar;
    }
    call.n = static_cast<size_t>(window.count);
    call.streams = window.results_begin < 0 && window.brought_at < 0 && streams(args, instruction);
    call.status = status;
    for (size_t row = 0; row < static_cast<size_t>(window.rows); ++row) {
      call.dst = dst.at + row * dst.step;
      for (uint32_t s = 0; s < instruction.sources; ++s)
        call.src[s] = src[s].at + row * src[s].step;
      instruction.function(call);
    }
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

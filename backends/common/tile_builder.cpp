// Builds tile programs: turns the nodes of a cluster into instructions and chains, gives their
// results registers, and writes outputs in place of registers where nothing is lost by it.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "keel/backends/common/tile_program.h"
#include "keel/core/base/checked.h"

namespace keel {
namespace {

constexpr int64_t kLargestTile = 4096;
constexpr size_t kLineOfTheCache = 64;  // bytes

int64_t round_down(int64_t elements, int64_t step) { return elements / step * step; }

}  // namespace

class TileProgram::Builder {
 public:
  Builder(TileProgram& program, const InstructionLookup& lookup, TileNodes cluster)
      : program_(program),
        lookup_(lookup),
        shape_(cluster.shape),
        inputs_(std::move(cluster.inputs)),
        outputs_(std::move(cluster.outputs)),
        results_(std::move(cluster.results)),
        slices_(std::move(cluster.slices)) {
    cluster.nodes.swap(nodes_);
  }

  void build() {
    program_.elements_ = shape_.num_elements();
    program_.row_elements_ = shape_.rank() == 0 ? 1 : shape_.back();
    program_.inputs_ = inputs_.size();
    for (size_t i = 0; i < inputs_.size(); ++i) argument_[inputs_[i]] = static_cast<uint32_t>(i);
    place_slices();
    number_uses();
    for (size_t first = 0; first < nodes_.size(); first = end_) {
      end_ = end_of_instruction(first);
      if (is_chain_node(nodes_[first]))
        add_chains(first);
      else
        add_instruction(first);
    }
    program_.computed_ = nodes_.size();
    copy_unwritten_results();
    measure_outputs();
    choose_tile();
    number_result_registers();
    find_in_place();
  }

 private:
  // Returns the node behind those of the chain that begins with `first`, or that one alone.
  size_t end_of_chain(size_t first) const {
    size_t end = first + 1;
    while (end < nodes_.size() && nodes_[end].continues) ++end;
    return end;
  }

  // Returns the node behind those of the instruction that begins with `first`: a chain may be run
  // together with those behind it that compute in the same dtype.
  size_t end_of_instruction(size_t first) const {
    const DType dtype = nodes_[first].result.dtype();
    size_t end = end_of_chain(first);
    if (!is_chain_node(nodes_[first])) return end;
    while (end < nodes_.size() && is_chain_node(nodes_[end]) &&
           nodes_[end].result.dtype() == dtype) {
      const size_t next = end_of_chain(end);
      if (next - first > kMostNodesTogether) break;
      end = next;
    }
    return end;
  }

  void place_slices() {
    for (const RowSlice& slice : slices_) {
      known_[slice.value] =
          part(slice.value.dtype(), {argument_.at(slice.of), slice.begin, slice.of.shape().back()});
    }
  }

  Operand part(DType dtype, const Part& part) {
    const size_t size = size_of(dtype);
    widest_ = std::max(widest_, size);
    program_.parts_.push_back(part);
    return {.place = Place::kPart,
            .index = static_cast<uint32_t>(program_.parts_.size() - 1),
            .element_size = size};
  }

  void number_uses() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Value& v : nodes_[i].inputs) last_use_[v] = i;
    }
    // A result goes straight to its memory; the first of several that share a value, the others are
    // copied.
    for (size_t r = 0; r < results_.size(); ++r) {
      const Value& value = results_[r].value;
      const bool computed = std::any_of(nodes_.begin(), nodes_.end(),
                                        [&](const TileNode& n) { return n.result == value; });
      if (computed && !result_of_.contains(value)) result_of_[value] = r;
    }
  }

  uint32_t take_register() {
    if (free_.empty()) return static_cast<uint32_t>(program_.register_count_++);
    const uint32_t r = free_.back();
    free_.pop_back();
    return r;
  }

  // Returns room for a group, which only the instruction that is being made may read; nothing where
  // it has no more.
  std::optional<uint32_t> take_group() {
    if (!free_groups_.empty()) {
      const uint32_t group = free_groups_.back();
      free_groups_.pop_back();
      return group;
    }
    if (groups_ == kMostGroups) return std::nullopt;
    return static_cast<uint32_t>(groups_++);
  }

  // Returns where a result leaves to, which node `at` writes.
  Operand place_of(const ClusterResult& result, size_t at) {
    const auto argument = static_cast<uint32_t>(program_.inputs_ + result.output);
    const DType dtype = result.value.dtype();
    if (result.is_part) {
      return part(dtype, {argument, result.begin, outputs_[result.output].shape().back()});
    }
    widest_ = std::max(widest_, size_of(dtype));
    writer_[result.output] = at;
    return {.place = Place::kArgument, .index = argument, .element_size = size_of(dtype)};
  }

  Operand operand(const Value& v) {
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
        operand = load(v, it->second);
    } else {
      operand = constant(v);
    }
    return known_[v] = operand;
  }

  bool is_one_row(const Value& v) const {
    return shape_.rank() != 0 && v.shape().rank() != 0 &&
           v.shape().num_elements() == shape_.back() && v.shape().back() != 1 &&
           v.shape().num_elements() != program_.elements_;
  }

  Operand load(const Value& v, uint32_t argument) {
    Operand operand;
    operand.element_size = size_of(v.dtype());
    const bool one_row = is_one_row(v);
    operand.index = one_row ? static_cast<uint32_t>(program_.register_count_++) : take_register();
    if (one_row) operand.row_of = argument;
    operand.loaded_from = argument;
    program_.loads_.push_back({program_.instructions_.size(), argument, operand.index,
                               operand.element_size, one_row,
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

  // Returns the row that a chain reads the value from, if all rows of the iteration shape read the
  // same and there is room for it.
  std::optional<Operand> row(const Value& v) {
    if (const auto it = rows_.find(v); it != rows_.end()) return it->second;
    const auto argument = argument_.find(v);
    if (argument == argument_.end() || !is_one_row(v)) return std::nullopt;
    const size_t size = size_of(v.dtype());
    const auto elements = static_cast<size_t>(v.shape().num_elements());
    const size_t times = (vector::kChainGroup + elements - 1) / elements;
    const size_t period = times * elements;
    const size_t bytes = (period + vector::kChainGroup) * size;
    if (bytes > kRowBytes - row_bytes_) return std::nullopt;
    Operand operand;
    operand.place = Place::kRow;
    operand.index = static_cast<uint32_t>(program_.rows_.size());
    operand.element_size = size;
    program_.rows_.push_back({argument->second, row_bytes_, size, period});
    row_bytes_ += align_up(bytes, kLineOfTheCache);
    return rows_[v] = operand;
  }

  // Returns the column that a chain reads the value from, if it has one element for each row of the
  // iteration shape and rows are as long as chains want the runs of operands.
  std::optional<Operand> column(const Value& v) const {
    const auto argument = argument_.find(v);
    const Shape& own = v.shape();
    if (argument == argument_.end() || own.rank() != shape_.rank() || own.num_elements() <= 1 ||
        program_.row_elements_ < static_cast<int64_t>(vector::kMostChainLanes) || own.back() != 1 ||
        !std::equal(own.begin(), own.end() - 1, shape_.begin())) {
      return std::nullopt;
    }
    return Operand{
        .place = Place::kColumn, .index = argument->second, .element_size = size_of(v.dtype())};
  }

  Operand chain_operand(const Value& v) {
    if (known_.contains(v)) return known_.at(v);
    if (const std::optional<Operand> own = row(v)) return *own;
    if (const std::optional<Operand> own = column(v)) return *own;
    return operand(v);
  }

  // Returns the place of a node's result; nothing where the chain only hands it on.
  std::optional<Operand> destination(size_t at) {
    const TileNode& node = nodes_[at];
    const bool handed_on = at + 1 < nodes_.size() && nodes_[at + 1].continues;
    const bool stays = result_of_.contains(node.result);
    const auto last = last_use_.find(node.result);
    if (handed_on && !stays && last->second == at + 1) return std::nullopt;
    return result_place(at);
  }

  Operand result_place(size_t at) {
    const Value& result = nodes_[at].result;
    if (const auto it = result_of_.find(result); it != result_of_.end())
      return known_[result] = place_of(results_[it->second], at);
    Operand dst;
    dst.element_size = size_of(result.dtype());
    widest_ = std::max(widest_, dst.element_size);
    const auto last = last_use_.find(result);
    const bool stays = is_chain_node(nodes_[at]) && last != last_use_.end() && last->second < end_;
    const std::optional<uint32_t> group = stays ? take_group() : std::nullopt;
    if (group) dst.place = Place::kGroup;
    dst.index = group ? *group : take_register();
    return known_[result] = dst;
  }

  // A result that comes several times is read again, to be copied.
  bool leaves(size_t at) const {
    const Value& result = nodes_[at].result;
    const auto times = std::count_if(results_.begin(), results_.end(),
                                     [&](const ClusterResult& r) { return r.value == result; });
    return times == 1 && !last_use_.contains(result);
  }

  // All that is loaded is there before the chains begin, in registers that no step writes while it
  // is read.
  void add_chains(size_t first) {
    groups_ = 0;
    free_groups_.clear();
    for (size_t at = first; at < end_; ++at) {
      for (const Value& v : nodes_[at].inputs) {
        if (argument_.contains(v)) static_cast<void>(chain_operand(v));
      }
    }
    Instruction instruction;
    instruction.chain = vector::find_chain(nodes_[first].result.dtype());
    instruction.first_step = static_cast<uint32_t>(program_.steps_.size());
    for (size_t at = first; at < end_; ++at) add_steps(at);
    instruction.steps = static_cast<uint32_t>(program_.steps_.size()) - instruction.first_step;
    program_.instructions_.push_back(instruction);
  }

  void add_steps(size_t at) {
    const TileNode& node = nodes_[at];
    const auto operand_of = [&](const Value& v) {
      if (!node.continues || v != nodes_[at - 1].result) return chain_operand(v);
      Operand operand;
      operand.place = Place::kValue;
      return operand;
    };
    Step step;
    for (const Value& v : node.inputs) step.src[step.sources++] = operand_of(v);
    if (node.select)
      step.op = *node.select;
    else
      take_value(vector::find_chain_ops(node.node->op_name()).value(), step);
    program_.steps_.push_back(step);
    if (const std::optional<Operand> dst = destination(at)) {
      Step store;
      store.op = vector::ChainOp::kStore;
      store.dst = *dst;
      store.leaves = leaves(at);
      program_.steps_.push_back(store);
    }
    release_registers(at);
  }

  // Gives a step of one or two operands the one beside the value that is handed on. Where none is
  // yet, the first operand is loaded ahead of it.
  void take_value(const vector::ChainOps& ops, Step& step) {
    const bool has_second = step.sources == 2;
    step.op = ops.of_first;
    if (step.src[0].place == Place::kValue) {
      step.src[0] = step.src[1];
    } else if (has_second && step.src[1].place == Place::kValue) {
      step.op = ops.of_second;
    } else {
      Step load;
      load.sources = 1;
      load.src[0] = step.src[0];
      program_.steps_.push_back(load);
      step.src[0] = step.src[1];
    }
    step.sources = has_second ? 1 : 0;
  }

  void add_instruction(size_t at) {
    const TileNode& node = nodes_[at];
    Instruction instruction;
    instruction.function = instruction_for(*node.node, lookup_);
    instruction.sources = static_cast<uint32_t>(node.inputs.size());
    for (size_t s = 0; s < node.inputs.size(); ++s) {
      instruction.src[s] = operand(node.inputs[s]);
    }
    instruction.dst = result_place(at);
    instruction.leaves = leaves(at);
    program_.instructions_.push_back(instruction);
    release_registers(at);
  }

  void release_registers(size_t at) {
    for (const Value& v : nodes_[at].inputs) {
      const auto known = known_.find(v);
      if (known == known_.end()) continue;  // a row, or handed on
      const Operand& operand = known->second;
      if (last_use_[v] != at) continue;
      if (operand.place == Place::kGroup) free_group(operand.index);
      if (operand.place != Place::kRegister) continue;
      if (operand.row_of >= 0) continue;  // another window reads it, too
      const bool copied_later = std::any_of(results_.begin(), results_.end(),
                                            [&](const ClusterResult& r) { return r.value == v; });
      const bool freed = std::find(free_.begin(), free_.end(), operand.index) != free_.end();
      if (!copied_later && !freed) free_.push_back(operand.index);
    }
  }

  // A node may read one value several times.
  void free_group(uint32_t group) {
    if (std::find(free_groups_.begin(), free_groups_.end(), group) == free_groups_.end())
      free_groups_.push_back(group);
  }

  // Results that are inputs, constants or another result: copied behind all nodes.
  void copy_unwritten_results() {
    for (size_t r = 0; r < results_.size(); ++r) {
      const Value& value = results_[r].value;
      const auto it = result_of_.find(value);
      if (it != result_of_.end() && it->second == r) continue;
      Instruction copy;
      copy.function = lookup_("copy", value.dtype(), value.dtype());
      copy.sources = 1;
      const size_t at = program_.computed_++;
      copy.src[0] = operand(value);
      last_use_[value] = at;
      copy.dst = place_of(results_[r], at);
      copy.leaves = true;
      program_.instructions_.push_back(copy);
    }
  }

  void measure_outputs() {
    size_t bytes = 0;
    for (const ClusterResult& result : results_) bytes += size_of(result.value.dtype());
    program_.large_ =
        bytes * static_cast<size_t>(program_.elements_) >= TileProgram::kStreamedBytes;
  }

  void choose_tile() {
    const size_t registers = std::max<size_t>(1, program_.register_count_);
    const auto fits = static_cast<int64_t>(kTileBytes / (registers * widest_));
    const auto group = static_cast<int64_t>(vector::kChainGroup);
    const int64_t tile = round_down(fits, fits < group ? kTileStep : group);
    program_.tile_ = std::clamp(tile, kTileStep, kLargestTile);
    program_.register_stride_ = static_cast<size_t>(program_.tile_) * widest_;
    program_.widest_ = widest_;
  }

  void number_result_registers() {
    constexpr uint32_t kNone = ~uint32_t{0};
    program_.result_register_.assign(program_.register_count_, kNone);
    const auto count = [&](const Operand& dst) {
      if (dst.place != Place::kRegister) return;
      uint32_t& number = program_.result_register_[dst.index];
      if (number == kNone) number = static_cast<uint32_t>(program_.result_registers_++);
    };
    for (const Instruction& instruction : program_.instructions_) {
      if (instruction.chain == nullptr) count(instruction.dst);
    }
    for (const Step& step : program_.steps_) {
      if (step.op == vector::ChainOp::kStore) count(step.dst);
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
  Values inputs_;
  Values outputs_;
  std::vector<ClusterResult> results_;
  std::vector<RowSlice> slices_;
  std::vector<TileNode> nodes_;
  std::unordered_map<Value, uint32_t, ValueHash> argument_;
  std::unordered_map<Value, size_t, ValueHash> last_use_;  // by number of the node
  std::unordered_map<Value, size_t, ValueHash> result_of_;
  std::unordered_map<Value, Operand, ValueHash> known_;
  std::unordered_map<Value, Operand, ValueHash> rows_;  // that chains read; others may be loaded
  std::unordered_map<size_t, size_t> writer_;           // output -> node
  std::vector<uint32_t> free_;
  size_t end_ = 0;     // the node behind those of the instruction that is being made
  size_t groups_ = 0;  // that it has room for
  std::vector<uint32_t> free_groups_;
  size_t widest_ = 1;
  size_t row_bytes_ = 0;
};

TileProgram::TileProgram(const Node& node, const InstructionLookup& lookup)
    : TileProgram(tile_nodes_of(node), lookup) {}

TileProgram::TileProgram(const Graph& body, const InstructionLookup& lookup)
    : TileProgram(tile_nodes_of(body), lookup) {}

TileProgram::TileProgram(TileNodes cluster, const InstructionLookup& lookup) {
  form_chains(cluster);
  Builder(*this, lookup, std::move(cluster)).build();
}

}  // namespace keel

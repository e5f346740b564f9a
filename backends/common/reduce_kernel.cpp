#include "keel/backends/common/reduce_kernel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keel/backends/common/float_status.h"
#include "keel/backends/common/reduce_plan.h"
#include "keel/core/tensor/buffer.h"
#include "keel/core/tensor/convert.h"

namespace keel {
namespace {

// Elements that a prologue or epilogue computes before they are used: they stay in the first level
// of the cache. One instruction that takes more at once gets more.
constexpr int64_t kPiece = 4096;
// Results times chunks and instructions that are worth a block of the second phase.
constexpr int64_t kWorkOfABlock = 131072;

// Bytes of scratch in which a block's prologue computes operands.
constexpr size_t kScratchBytes = size_t{kReduceChunk} * sizeof(int64_t);

// Returns the bytes of it that each of so many computed operands has, from an aligned byte on.
size_t scratch_of_one(size_t computed) {
  return kScratchBytes / computed / Buffer::kAlignment * Buffer::kAlignment;
}

// Says where a reduction finds its operand.
struct OperandPlace {
  bool computed = false;
  size_t number = 0;  // of the prologue's result, or of the argument
};

// The operands of reductions that go over them together, in the reductions' order.
struct OperandPlaces {
  explicit OperandPlaces(const AnchoredNode& fused) {
    for (size_t i = 0; i < fused.reductions(); ++i) {
      if (fused.has_prologue(i))
        all.push_back({true, computed++});
      else
        all.push_back({false, fused.source(i).value()});
    }
  }

  std::vector<OperandPlace> all;
  size_t computed = 0;  // how many a prologue computes
};

// Gives what a block reduces: where it lies in memory or, behind a prologue, as it is computed.
class Source {
 public:
  Source(const OperandPlaces& operands, void* const* args, size_t element_size)
      : operands_(operands), args_(args), element_size_(element_size) {}
  // Computes operands in parts of `scratch`, each of which has room for what one instruction takes
  // and for kPiece elements. When elements are reduced in storage order, the prologue may compute
  // past the requested count, but never past `end`.
  Source(const OperandPlaces& operands, void* const* args, size_t element_size,
         const TileProgram& prologue, const std::vector<size_t>& inputs, char* scratch, int64_t end)
      : operands_(operands),
        args_(args),
        element_size_(element_size),
        prologue_(&prologue),
        scratch_(scratch),
        scratch_step_(scratch_of_one(operands.computed)),
        end_(end) {
    for (size_t i = 0; i < inputs.size(); ++i) arguments_[i] = args[inputs[i]];
    for (size_t i = 0; i < operands.computed; ++i)
      arguments_[inputs.size() + i] = scratch + i * scratch_step_;
  }

  // Returns `count` elements from `first` on of an operand. Those of other operands that are
  // computed are then there, too.
  const char* at(size_t operand, int64_t first, int64_t count) {
    const OperandPlace& place = operands_.all[operand];
    if (!place.computed) {
      return static_cast<const char*>(args_[place.number]) +
             static_cast<size_t>(first) * element_size_;
    }
    if (first < first_ || first + count > last_) {
      const int64_t ahead = count * std::max<int64_t>(1, kPiece / std::max<int64_t>(1, count));
      first_ = first;
      last_ = std::max(first + count, std::min(first + ahead, end_));
      // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): no operand is computed without it.
      status_ |= prologue_->run_into_piece(arguments_, first_, last_);
    }
    return scratch_ + place.number * scratch_step_ +
           static_cast<size_t>(first - first_) * element_size_;
  }
  // Returns how many elements from `first` on are there already.
  int64_t ready(int64_t first) const {
    return first < first_ ? 0 : std::max<int64_t>(0, last_ - first);
  }
  bool computes() const { return prologue_ != nullptr; }
  uint32_t status() const { return status_; }

 private:
  const OperandPlaces& operands_;
  void* const* args_;
  size_t element_size_;
  const TileProgram* prologue_ = nullptr;
  void* arguments_[kMostTileArguments];
  char* scratch_ = nullptr;
  size_t scratch_step_ = 0;       // bytes from operand to operand
  int64_t first_ = 0, last_ = 0;  // what is in scratch
  int64_t end_ = 0;
  uint32_t status_ = 0;
};

// The first phase reduces the chunks of the numeric plan, wide ones in groups of columns, which
// have nothing to do with each other; the second merges them. Reductions that are siblings have the
// same plan: each chunk is reduced for all of them before the next.
class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const AnchoredNode& fused, const ReduceUnit& unit, int most_blocks)
      : op_(fused.anchor().op_name()),
        in_(fused.anchor().input(0).dtype()),
        out_(fused.anchor().type().dtype),
        accumulator_(accumulator_of(in_)),
        plan_(fused.anchor()),
        operands_(fused),
        instructions_(unit.instructions),
        prologue_inputs_(fused.prologue_inputs()),
        epilogue_inputs_(fused.epilogue_inputs()),
        outputs_at_(fused.node().inputs().size()),
        workspace_at_(outputs_at_ + fused.node().types().size()) {
    elements_ = plan_.elements();
    outputs_ = plan_.results();
    run_ = plan_.run();
    width_ = plan_.width();
    outer_count_ = plan_.outer_count();
    chunks_ = plan_.chunks();
    all_units_ = plan_.all_units();
    groups_ = std::max<int64_t>(1, width_ / kPiece);
    plan_blocks(most_blocks);
    plan_beside(fused, unit);
    plan_merge(most_blocks);
    if (unit.float_status) status_at_ = workspace_at_ + (workspace_bytes() != 0 ? 1 : 0);
  }

  size_t workspace_bytes() const { return operands_.all.size() * accumulator_bytes(); }
  // The first phase has read what the prologue reads, and each block of the second its part of the
  // rest, before a result is written there.
  std::vector<KernelPlan::InPlace> in_place() const {
    std::vector<KernelPlan::InPlace> pairs;
    if (!epilogue_) return pairs;
    for (const auto& pair : epilogue_->in_place()) {
      if (pair.input != 0) pairs.push_back({pair.output, epilogue_inputs_[pair.input - 1]});
    }
    for (const size_t input : prologue_inputs_) {
      if (std::binary_search(epilogue_inputs_.begin(), epilogue_inputs_.end(), input)) continue;
      for (size_t output = 0; output < workspace_at_ - outputs_at_; ++output) {
        pairs.push_back({output, input});
      }
    }
    return pairs;
  }
  int phases() const override { return 2; }
  int blocks(int phase) const override { return phase == 0 ? blocks_ : merge_blocks_; }

  void run(void* const* args, int phase, int block) const override {
    if (outputs_ == 0) return;  // not even a workspace
    uint32_t status = 0;
    if (phase == 1)
      status = finish(args, block);
    else if (prologue_)
      status = compute_and_reduce(args, block);
    else
      reduce(Source(operands_, args, size_of(in_)), args, block);
    if (status_at_) raise_float_status(args[*status_at_], status);
  }

 private:
  void plan_blocks(int most_blocks) {
    const int64_t per_unit = plan_.last_reduced() ? std::min(run_, kReduceChunk) : width_;
    const int64_t elements = outer_count_ * std::max<int64_t>(1, all_units_) * per_unit;
    const int64_t worth = std::max<int64_t>(1, elements / (kReduceChunk / 2));
    blocks_ = static_cast<int>(
        std::min({outer_count_ * chunks_ * groups_, worth, static_cast<int64_t>(most_blocks)}));
    blocks_ = std::max(1, blocks_);
  }

  // Returns the bytes that the accumulators of one of the reductions take.
  size_t accumulator_bytes() const {
    return static_cast<size_t>(outer_count_ * chunks_ * width_) * size_of(accumulator_);
  }

  void plan_beside(const AnchoredNode& fused, const ReduceUnit& unit) {
    if (operands_.computed != 0) prologue_.emplace(*fused.prologue_graph(), unit.lookup);
    if (!fused.has_epilogue()) return;
    epilogue_.emplace(*EpilogueGraph(fused).graph, unit.lookup);
    stays_ = out_ == accumulator_ && (chunks_ == 1 || outer_count_ == 1);
    // The extremes of nothing are infinite by definition, not by overflow.
    if (out_ == f16 && elements_ != 0) saturate_ = unit.saturate;
  }

  void plan_merge(int most_blocks) {
    const auto instructions = static_cast<int64_t>(epilogue_ ? epilogue_->instructions() : 0);
    const int64_t chunks = chunks_ * static_cast<int64_t>(operands_.all.size());
    const int64_t worth = outputs_ * (chunks + instructions) / kWorkOfABlock;
    merge_blocks_ = static_cast<int>(std::clamp<int64_t>(worth, 1, most_blocks));
  }

  void set_identity(char* accumulators, size_t count) const {
    instructions_.identity(op_, in_, accumulators);
    const size_t all = count * size_of(accumulator_);
    for (size_t filled = size_of(accumulator_); filled < all;) {
      const size_t bytes = std::min(filled, all - filled);
      std::memcpy(accumulators + filled, accumulators, bytes);
      filled += bytes;
    }
  }

  // ---- the first phase: each chunk into accumulators of its own

  // A task is a group of columns of a chunk.
  int64_t first_task(int block) const { return outer_count_ * chunks_ * groups_ * block / blocks_; }
  int64_t first_column(int64_t group) const { return group == groups_ ? width_ : group * kPiece; }

  uint32_t compute_and_reduce(void* const* args, int block) const {
    alignas(Buffer::kAlignment) char scratch[kScratchBytes];
    int64_t end = 0;
    if (plan_.ascends() && elements_ != 0) {  // and has one group
      const int64_t task = first_task(block + 1);
      end = block + 1 == blocks_ ? elements_
                                 : plan_.offset_of_row(task / chunks_) +
                                       plan_.offset_of_unit(plan_.first_unit(task % chunks_));
    }
    return reduce(Source(operands_, args, size_of(in_), *prologue_, prologue_inputs_, scratch, end),
                  args, block);
  }

  uint32_t reduce(Source&& source, void* const* args, int block) const {
    const int64_t begin = first_task(block), end = first_task(block + 1);
    auto* accumulators = static_cast<char*>(args[workspace_at_]);
    if (plan_.last_reduced() && all_units_ == 1) {
      accumulators += static_cast<size_t>(begin) * size_of(accumulator_);
      reduce_whole_runs(source, begin, end, accumulators);
      return source.status();
    }
    for (int64_t task = begin; task < end;) {
      const int64_t chunk = task / groups_, first = task % groups_;
      const int64_t last = std::min(groups_, first + end - task);
      reduce_chunk(source, chunk, {first_column(first), first_column(last)},
                   accumulators + static_cast<size_t>(chunk * width_) * size_of(accumulator_));
      task += last - first;
    }
    return source.status();
  }

  // Each result takes one run, and they follow each other: one call for as many as stay in the
  // cache.
  void reduce_whole_runs(Source& source, int64_t begin, int64_t end, char* accumulators) const {
    int64_t partials[kPiece];  // each as wide as any accumulator
    const int64_t together = std::max<int64_t>(1, kPiece / run_);
    for (int64_t at = begin; at < end; at += together) {
      const auto count = static_cast<size_t>(std::min(together, end - at));
      char* to = accumulators + static_cast<size_t>(at - begin) * size_of(accumulator_);
      for (size_t i = 0; i < operands_.all.size(); ++i, to += accumulator_bytes()) {
        ReduceCall call;
        call.src = source.at(i, at * run_, static_cast<int64_t>(count) * run_);
        call.rows = count;
        call.cols = static_cast<size_t>(run_);
        call.stride = call.cols;
        call.dst = partials;
        instructions_.rows(call);
        set_identity(to, count);
        instructions_.merge({partials, 1, count, count, to});
      }
    }
  }

  struct Columns {
    int64_t begin = 0, end = 0;
  };

  // Reduces columns of a chunk; `number` counts the chunks of all output rows.
  void reduce_chunk(Source& source, int64_t number, const Columns& columns,
                    char* accumulators) const {
    accumulators += static_cast<size_t>(columns.begin) * size_of(accumulator_);
    for (size_t i = 0; i < operands_.all.size(); ++i) {
      set_identity(accumulators + i * accumulator_bytes(),
                   static_cast<size_t>(columns.end - columns.begin));
    }
    const int64_t begin = plan_.first_unit(number % chunks_);
    const int64_t end = plan_.first_unit(number % chunks_ + 1);
    const int64_t base = plan_.offset_of_row(number / chunks_);
    if (plan_.last_reduced())
      reduce_runs(source, base, begin, end, accumulators);
    else
      reduce_rows(source, base + columns.begin, {begin, end}, columns.end - columns.begin,
                  accumulators);
  }

  void reduce_runs(Source& source, int64_t base, int64_t begin, int64_t end,
                   char* accumulator) const {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t count = plan_.elements_of_unit(unit);
      for (size_t i = 0; i < operands_.all.size(); ++i) {
        int64_t partial = 0;  // as wide as any accumulator
        ReduceCall call;
        call.src = source.at(i, base + plan_.offset_of_unit(unit), count);
        call.cols = static_cast<size_t>(count);
        call.stride = call.cols;
        call.dst = &partial;
        instructions_.rows(call);
        instructions_.merge({&partial, 1, 1, 1, accumulator + i * accumulator_bytes()});
      }
    }
  }

  struct Units {
    int64_t begin = 0, end = 0;
  };

  // Reduces as many columns of rows, of which the first begins at element `base` of its own.
  void reduce_rows(Source& source, int64_t base, const Units& units, int64_t columns,
                   char* accumulators) const {
    const int64_t inner = plan_.neighbouring_steps();
    for (int64_t unit = units.begin; unit < units.end;) {
      const int64_t rows = std::min(units.end - unit, inner - unit % inner);
      const int64_t first = base + plan_.offset_of_unit(unit);
      if (source.computes())
        reduce_computed_rows(source, first, rows, columns, accumulators);
      else
        add_rows(source.at(0, first, rows * width_), rows, columns, accumulators);
      unit += rows;
    }
  }

  void add_rows(const char* from, int64_t rows, int64_t columns, char* accumulators) const {
    ReduceCall call;
    call.src = from;
    call.rows = static_cast<size_t>(rows);
    call.cols = static_cast<size_t>(columns);
    call.stride = static_cast<size_t>(width_);
    call.dst = accumulators;
    instructions_.columns(call);
  }

  // Column by column the order is that of the rows, however many one instruction takes.
  void reduce_computed_rows(Source& source, int64_t first, int64_t rows, int64_t all_columns,
                            char* accumulators) const {
    const int64_t together = std::max<int64_t>(1, kPiece / width_);
    for (int64_t column = 0; column < all_columns; column += kPiece) {
      const int64_t columns = std::min(kPiece, all_columns - column);
      char* to = accumulators + static_cast<size_t>(column) * size_of(accumulator_);
      for (int64_t row = 0; row < rows;) {
        const int64_t at = first + row * width_ + column;
        int64_t count = std::min(together, rows - row);
        if (source.ready(at) >= columns) count = std::min(count, source.ready(at) / width_);
        count = std::max<int64_t>(1, count);
        for (size_t i = 0; i < operands_.all.size(); ++i) {
          add_rows(source.at(i, at, (count - 1) * width_ + columns), count, columns,
                   to + i * accumulator_bytes());
        }
        row += count;
      }
    }
  }

  // ---- the second phase: the chunks of each result in order, rounded, and what follows

  uint32_t finish(void* const* args, int block) const {
    const int64_t begin = outputs_ * block / merge_blocks_;
    const int64_t end = outputs_ * (block + 1) / merge_blocks_;
    char* partials = static_cast<char*>(args[workspace_at_]);
    if (!epilogue_) {
      for (size_t i = 0; i < operands_.all.size(); ++i) {
        char* to = static_cast<char*>(args[outputs_at_ + i]);
        merge(partials + i * accumulator_bytes(), begin, end - begin,
              to + static_cast<size_t>(begin) * size_of(out_));
      }
      return 0;
    }
    if (!stays_) return round_and_follow(args, partials, begin, end);
    uint32_t status = 0;
    void* arguments[kMostTileArguments];
    set_epilogue_arguments(args, arguments);
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      arguments[0] = add_up(partials, at, count);
      status |= epilogue_->run_from_piece(arguments, at, at + count);
    }
    return status;
  }

  // Sets those behind the first, which is the reduced values.
  void set_epilogue_arguments(void* const* args, void** arguments) const {
    const size_t inputs = epilogue_inputs_.size();
    for (size_t i = 0; i < inputs; ++i) arguments[i + 1] = args[epilogue_inputs_[i]];
    std::copy(args + outputs_at_, args + workspace_at_, arguments + 1 + inputs);
  }

  uint32_t round_and_follow(void* const* args, char* partials, int64_t begin, int64_t end) const {
    uint32_t status = 0;
    alignas(64) char reduced[kPiece * sizeof(int64_t)];
    void* arguments[kMostTileArguments];
    set_epilogue_arguments(args, arguments);
    arguments[0] = reduced;
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t count = std::min(kPiece, end - at);
      merge(partials, at, count, reduced);
      if (saturate_ != nullptr) status |= saturate_(reinterpret_cast<uint16_t*>(reduced), count);
      status |= epilogue_->run_from_piece(arguments, at, at + count);
    }
    return status;
  }

  // Returns the sums of the chunks of neighbouring results within an output row.
  char* add_up(char* partials, int64_t first, int64_t count) const {
    const size_t size = size_of(accumulator_);
    if (chunks_ == 1) return partials + static_cast<size_t>(first) * size;
    const int64_t outer = first / width_, column = first % width_;
    char* sums = partials + static_cast<size_t>(outer * chunks_ * width_ + column) * size;
    const int64_t in_part = chunks_ / plan_.parts();
    for (int64_t part = 0; in_part > 1 && part < plan_.parts(); ++part) {
      char* first_of_part = sums + static_cast<size_t>(part * in_part * width_) * size;
      instructions_.merge({first_of_part + static_cast<size_t>(width_) * size,
                           static_cast<size_t>(in_part - 1), static_cast<size_t>(count),
                           static_cast<size_t>(width_), first_of_part});
    }
    add_parts(sums, 0, plan_.parts(), static_cast<size_t>(in_part * width_) * size, count);
    return sums;
  }

  // Adds up parts [begin, end), whose sums are `step` bytes apart, in the place of the first.
  void add_parts(char* sums, int64_t begin, int64_t end, size_t step, int64_t count) const {
    if (end - begin < 2) return;
    const int64_t middle = begin + (end - begin) / 2;
    add_parts(sums, begin, middle, step, count);
    add_parts(sums, middle, end, step, count);
    instructions_.merge({sums + static_cast<size_t>(middle) * step, 1, static_cast<size_t>(count),
                         static_cast<size_t>(width_), sums + static_cast<size_t>(begin) * step});
  }

  // Results [first, first + count), added up and rounded to the output's dtype.
  void merge(char* partials, int64_t first, int64_t count, char* to) const {
    for (int64_t at = first; at < first + count;) {
      const int64_t left = first + count - at;
      const int64_t columns = chunks_ == 1 ? left : std::min(width_ - at % width_, left);
      round_accumulators(add_up(partials, at, columns), accumulator_,
                         to + static_cast<size_t>(at - first) * size_of(out_), out_, columns);
      at += columns;
    }
  }

  std::string op_;
  DType in_;
  DType out_;
  DType accumulator_;
  ReducePlan plan_;
  OperandPlaces operands_;
  ReduceInstructions instructions_;
  std::vector<size_t> prologue_inputs_, epilogue_inputs_;  // numbers of arguments
  size_t outputs_at_;
  size_t workspace_at_;
  std::optional<size_t> status_at_;
  std::optional<TileProgram> prologue_;
  std::optional<TileProgram> epilogue_;
  uint32_t (*saturate_)(uint16_t*, int64_t) = nullptr;
  bool stays_ = false;  // the epilogue reads the accumulators where they are
  int64_t elements_ = 0, outputs_ = 0;
  int64_t run_ = 1, width_ = 1;
  int64_t outer_count_ = 1, chunks_ = 1, all_units_ = 0;
  int64_t groups_ = 1;  // groups of columns in an output row, which blocks may divide
  int blocks_ = 1;
  int merge_blocks_ = 1;
};

}  // namespace

void round_accumulators(const void* accumulators, DType accumulator, void* to, DType out,
                        int64_t count) {
  visit_dtype(out, [&]<class To>() {
    const auto convert = [&]<class From>(const From* from) {
      for (int64_t i = 0; i < count; ++i) {
        static_cast<To*>(to)[i] = convert_element<To>(from[i]);
      }
    };
    if (accumulator == f64)
      convert(static_cast<const double*>(accumulators));
    else if (accumulator == f32)
      convert(static_cast<const float*>(accumulators));
    else
      convert(static_cast<const int64_t*>(accumulators));
  });
}

KernelPlan plan_reduce(const AnchoredNode& node, const ReduceUnit& unit, int most_blocks) {
  auto kernel = std::make_unique<ReduceKernel>(node, unit, most_blocks);
  KernelPlan plan;
  plan.workspace_bytes = kernel->workspace_bytes();
  plan.block_dim = kernel->blocks(0);
  plan.in_place = kernel->in_place();
  plan.kind = TaskKind::kAiVectorCore;
  plan.float_status = unit.float_status;
  plan.kernel = std::move(kernel);
  return plan;
}

namespace {

// Says whether a prologue that computes several operands goes over them as one.
Support supports_together(const Node& reduction, const Graph& prologue) {
  const Values& operands = prologue.outputs();
  for (const Value& operand : operands) {
    if (operand.shape() == operands[0].shape()) continue;
    return {false, "operands of shapes " + to_string(operands[0].shape()) + " and " +
                       to_string(operand.shape()) + " are computed"};
  }
  const ReducePlan plan(reduction);
  const int64_t at_once =
      plan.last_reduced() ? std::max(kPiece, std::min(plan.run(), kReduceChunk)) : kPiece;
  const size_t bytes = static_cast<size_t>(at_once) * size_of(reduction.input(0).dtype());
  const size_t room = scratch_of_one(operands.size());
  if (bytes <= room) return {true, ""};
  return {false, std::to_string(bytes) + " bytes at once of each of " +
                     std::to_string(operands.size()) + " operands, more than scratch of " +
                     std::to_string(room)};
}

}  // namespace

Support supports_reduce(const AnchoredNode& node, const InstructionLookup& lookup,
                        int64_t work_of_a_block, int most_blocks) {
  const Node& reduction = node.anchor();
  for (size_t i = 0; i < node.reductions(); ++i) {
    if (!node.has_prologue(i) && !node.source(i)) return {false, "what it reduces is a constant"};
  }
  if (node.has_epilogue()) {
    if (Support s = supports_tiles(*EpilogueGraph(node).graph, lookup); !s.supported) return s;
  }
  if (node.computed_operands() == 0)
    return {node.reductions() == 1, "no reduction computes what it reduces"};
  const std::unique_ptr<Graph> prologue = node.prologue_graph();
  if (Support s = supports_together(reduction, *prologue); !s.supported) return s;
  if (Support s = supports_tiles(*prologue, lookup); !s.supported) return s;
  int64_t instructions = 0;
  for (const Node* inner : node.prologue()) {
    if (!inner->has(kView | kMovement)) ++instructions;
  }
  const int64_t work =
      reduction.input(0).shape().num_elements() * std::max<int64_t>(1, instructions);
  const int blocks = ReduceKernel(reduction, {}, most_blocks).blocks(0);
  if (blocks == 1 && work >= 2 * work_of_a_block) {
    return {false, "the reduction is one block, what it would compute first is worth " +
                       std::to_string(work / work_of_a_block)};
  }
  return {true, ""};
}

}  // namespace keel

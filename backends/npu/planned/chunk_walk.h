// ChunkWalk: a core's way through the elements of one chunk of a reduction: they are brought to
// unified buffer tile by tile, in the order in which the numeric plan takes them, computed there
// where something is fused before the reduction, and reduced into sums that stay on the core: for
// each of several reductions that are siblings, before the next tile. One thread.
#ifndef KEEL_BACKENDS_NPU_PLANNED_CHUNK_WALK_H
#define KEEL_BACKENDS_NPU_PLANNED_CHUNK_WALK_H

#include <optional>
#include <string>
#include <vector>

#include "keel/backends/common/reduce_call.h"
#include "keel/backends/common/reduce_plan.h"
#include "keel/backends/npu/planned/brought_program.h"

namespace keel::npu {

// The reductions that are walked, siblings if there are several; outlives its walks.
struct WalkedReductions {
  // Says where one of them reads: from a result of the prologue, or from an argument, which is an
  // input of the prologue where there is one.
  struct Operand {
    std::optional<size_t> result;
    size_t argument = 0, input = 0;
  };
  ReducePlan numeric;
  std::string op;
  DType dtype;
  std::vector<Operand> operands;  // by reduction; one without a prologue
  std::optional<BroughtProgram> prologue;
  int64_t tile_elements = 0;
  int buffers = 2;
};

class ChunkWalk {
 public:
  ChunkWalk(const WalkedReductions& walked, Core& core, void* const* args);

  // Results of each reduction that the core can reduce at once within a tile's share of unified
  // buffer.
  int64_t most_results() const;
  // Claims the buffers for so many.
  void begin_block(int64_t block, int64_t results);

  // Reduces chunk `chunk` of `count` results from `first` on, which are in one output row unless
  // the last axis is reduced. Their accumulators are then on the core.
  void reduce(int64_t chunk, int64_t first, int64_t count);
  char* sums(size_t reduction) { return core_.at(sums_at_ + 3 * reduction); }
  // All chunks of them, merged in their order.
  void reduce_all(int64_t first, int64_t count);
  char* merged(size_t reduction) { return core_.at(sums_at_ + 3 * reduction + 1); }

  DType accumulator() const noexcept { return accumulator_; }
  // Adds accumulators to others, in place.
  void merge(const void* more, void* sums, int64_t count) const;
  uint32_t status() const noexcept { return status_; }

 private:
  // Neighbouring elements that go to one accumulator after the other (a row), or into one (a run).
  struct Segment {
    int64_t offset = 0, count = 0;
    int64_t result = 0;      // the first accumulator
    int64_t run_offset = 0;  // within the run, of the first element
    bool ends_run = false;
  };
  struct Tile {
    int buffer = 0;
    int64_t number = 0;
    int64_t elements = 0;
    std::vector<Segment> segments;
  };

  size_t accumulator_size() const { return size_of(accumulator_); }
  int64_t run_width() const;
  BroughtProgram::Place place(int buffer) const;
  void set_identity(char* accumulators, int64_t count) const;
  void add(Segment segment);
  void tile_is_full();
  void end_tiles();
  void consume(const Tile& tile);
  const char* elements_of(size_t reduction, const Tile& tile) const;
  void consume_rows(const Tile& tile, const char* elements, char* sums) const;
  void consume_runs(const Tile& tile, size_t reduction);
  void add_run(const Segment& segment, const char* elements, size_t reduction);

  const WalkedReductions& walked_;
  Core& core_;
  void* const* args_;
  DType accumulator_;
  ReduceInstructions instructions_;
  ReduceInstruction accumulator_rows_;
  size_t sums_at_ = 0;  // claims of each reduction: sums of a chunk, of those before, along a run
  Tile filling_;
  std::optional<Tile> brought_;  // and not yet computed
  int64_t tiles_ = 0;
  uint32_t status_ = 0;
};

}  // namespace keel::npu

#endif  // KEEL_BACKENDS_NPU_PLANNED_CHUNK_WALK_H

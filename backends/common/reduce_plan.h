// ReducePlan: the numeric plan of a reduction, which follows from its shape alone: how the reduced
// elements are cut into chunks, in which order a chunk takes its elements, and that chunks are
// merged in ascending order. A sum over parts (ops/sums/part_sums.h) has the chunks of each part
// one behind the other; those of a part are merged so, and then the parts as a tree. Kernels
// compute by it, and schedules cut work only where it does, so that results have the same bits
// whoever computes which chunks. Immutable; any thread.
#ifndef KEEL_BACKENDS_COMMON_REDUCE_PLAN_H
#define KEEL_BACKENDS_COMMON_REDUCE_PLAN_H

#include <cstdint>
#include <vector>

#include "keel/graph/ir/node.h"

namespace keel {

// Elements of one output row that are reduced in one go; longer reductions are cut into even chunks
// of at most as many, or of more where there would be too many chunks or, of many results, too many
// accumulators.
inline constexpr int64_t kReduceChunk = 32768;

// An output row is what one index of the outer kept axes gives: `width` neighbouring results, each
// reduced over `units` steps. A step is a run of `run` contiguous elements when the last axis is
// reduced (width 1), else a row of `width` elements. A long run is cut into `pieces` units.
class ReducePlan {
 public:
  // Plans a sum, prod, max or min.
  explicit ReducePlan(const Node& reduction);

  int64_t elements() const noexcept { return elements_; }
  int64_t results() const noexcept { return results_; }
  int64_t outer_count() const noexcept { return outer_count_; }
  int64_t width() const noexcept { return width_; }
  int64_t run() const noexcept { return run_; }
  int64_t chunks() const noexcept { return chunks_; }  // of each output row
  int64_t parts() const noexcept { return parts_; }    // equal numbers of chunks, and of units
  int64_t all_units() const noexcept { return all_units_; }
  bool last_reduced() const noexcept { return last_reduced_; }
  // Steps that follow each other in memory, `width` elements apart.
  int64_t neighbouring_steps() const noexcept { return steps_.empty() ? 1 : steps_.back().dim; }
  // Says whether units and output rows in their order are the elements in the order of memory.
  bool ascends() const noexcept { return ascends_; }

  // Units [first_unit(chunk), first_unit(chunk + 1)) are chunk `chunk` of each output row.
  int64_t first_unit(int64_t chunk) const {
    const int64_t units = all_units_ / parts_, chunks = chunks_ / parts_;
    return chunk / chunks * units + units * (chunk % chunks) / chunks;
  }
  // Where an output row begins, and from there a unit: in elements of the operand.
  int64_t offset_of_row(int64_t outer) const { return offset_of(outer_, outer); }
  int64_t offset_of_unit(int64_t unit) const {
    int64_t part_at = 0;
    if (parts_ != 1) {
      const int64_t units = all_units_ / parts_;
      part_at = elements_ / parts_ * (unit / units);
      unit %= units;
    }
    return part_at + offset_of(steps_, unit / pieces_) + run_ * (unit % pieces_) / pieces_;
  }
  // How many elements of a run a unit has. REQUIRES last_reduced().
  int64_t elements_of_unit(int64_t unit) const {
    const int64_t piece = unit % pieces_;
    return run_ * (piece + 1) / pieces_ - run_ * piece / pieces_;
  }

 private:
  struct Group {
    int64_t dim = 1;
    int64_t stride = 1;
    bool reduced = false;
  };
  static std::vector<Group> collapse(const Shape& shape, const std::vector<bool>& reduced);
  static int64_t offset_of(const std::vector<Group>& groups, int64_t index);
  static int64_t count_of(const std::vector<Group>& groups);

  bool last_reduced_ = true;
  bool ascends_ = false;
  int64_t elements_ = 0, results_ = 0;
  int64_t run_ = 1, width_ = 1;
  std::vector<Group> outer_, steps_;
  int64_t outer_count_ = 1;
  int64_t pieces_ = 1, all_units_ = 0, chunks_ = 1, parts_ = 1;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_REDUCE_PLAN_H

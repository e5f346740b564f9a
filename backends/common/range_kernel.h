// RangeKernel: a kernel whose results are units that need nothing of one another (elements, slices,
// lines), so that any range of them can be made by itself: the share of a host's block, or a tile
// of a planned launch. Immutable; ranges may be made on any number of threads at once.
#ifndef KEEL_BACKENDS_COMMON_RANGE_KERNEL_H
#define KEEL_BACKENDS_COMMON_RANGE_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <memory>

#include "keel/backends/common/kernel.h"

namespace keel {

// Units of each result of a node, dealt to so many blocks, or to as many as there are units.
struct RangeUnits {
  int64_t units = 1;
  int64_t blocks = 1;
};

class RangeKernel : public Kernel {
 public:
  RangeKernel(const Node& node, RangeUnits units);

  int64_t units() const noexcept { return units_; }
  // A unit may be made of a line of input 0: these are its elements, and how far they lie apart. 0
  // elements say that a unit may read anything, or that there is no unit.
  virtual int64_t line() const { return 0; }
  virtual int64_t line_step() const { return 1; }
  // Returns the same for lines whose elements lie together, and so do those of each result's lines;
  // null for a kernel that reads no lines.
  virtual std::unique_ptr<RangeKernel> of_lines_together() const { return nullptr; }
  // Bytes of memory that a range needs while it is made.
  virtual size_t scratch_bytes() const { return 0; }

  // Says whether there is something that only the data shows; then check() is called before any
  // range is made, and throws Error where it is wrong.
  virtual bool checks() const { return false; }
  virtual void check(void* const* args) const { static_cast<void>(args); }
  // Makes units [begin, end). args as run() gets them; of results, and of an input that is read in
  // lines of step 1, only those units need to be there, at their distance from the address.
  virtual void make(void* const* args, int64_t begin, int64_t end, void* scratch) const = 0;

  size_t workspace_bytes() const;
  int phases() const final { return checks() ? 2 : 1; }
  int blocks(int phase) const final { return phase + 1 == phases() ? blocks_ : 1; }
  void run(void* const* args, int phase, int block) const final;

 private:
  int64_t units_;
  int blocks_;
  size_t workspace_at_;  // the number of its argument
};

// Elements of a block that moves them: 24 KiB of f32 are copied in about the time of a fork. What
// it copies mostly comes from blocks that the same threads computed, and goes to such: one thread
// alone would bring half of it from another core's cache.
inline constexpr int64_t kMovedElementsWorthABlock = 6144;
// Returns how many blocks so many elements are worth, `most` at most.
int64_t blocks_worth(int64_t elements, int64_t elements_of_a_block, int most);
// Units that are the elements of the node's result.
RangeUnits units_of_elements(const Node& node, int64_t elements_of_a_block, int most_blocks);

KernelPlan plan_ranges(std::unique_ptr<RangeKernel> kernel,
                       TaskKind kind = TaskKind::kAiVectorCore);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_RANGE_KERNEL_H

// Kernel: the code of one task, bound to its shapes when the program is compiled. A kernel runs in
// phases; the blocks of a phase are independent and may run at the same time on several threads,
// phases follow each other. How many blocks there are may depend on the schedule; what each element
// becomes must not. KernelLibrary: what a backend gives to the lowering: which nodes it runs and
// with which kernel.
#ifndef KEEL_BACKENDS_COMMON_KERNEL_H
#define KEEL_BACKENDS_COMMON_KERNEL_H

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "keel/core/device/backend.h"
#include "keel/core/group/agreement.h"
#include "keel/graph/ir/graph.h"

namespace keel {

enum class TaskKind : uint8_t {
  kAiCore,
  kAiVectorCore,
  kAiCpu,
  kMemcpy,
  kLoopSwitch,
  kLoopInc,
  kLoopReset,
  kLoopActive,
  kDequeue,
  kReleaseSlot,
  kMetric,
  kCommit,
  kHccl,  // a collective of the ranks
};
// "AI_CORE", "LOOP_SWITCH" ...
KEEL_API const char* name_of(TaskKind kind) noexcept;

class KEEL_API Kernel {
 public:
  virtual ~Kernel();
  virtual int phases() const { return 1; }
  virtual int blocks(int phase) const {
    static_cast<void>(phase);
    return 1;
  }
  // args: addresses of the node's inputs and outputs (data_inputs(), data_types()), then the
  // workspace and the status word where the plan asks for them. Throws Error for what only the data
  // shows, which its op announces (OpDef::checked_indices); before it has written anything in
  // place, unless the op is row-wise. Called from any thread, for each block of each phase once.
  virtual void run(void* const* args, int phase, int block) const = 0;
  // Returns whether it waits for something outside the device, as kernels of ops with kEffect may.
  // Then it has one block, and is run by this instead: false where it gave up because `abort` said
  // so.
  virtual bool waits() const { return false; }
  virtual bool run_waiting(void* const* args, const AbortContext& abort) const;
  // Hears that the step ended early, and why: others outside may wait for this kernel in turn.
  virtual void fail(const char* why) const noexcept;
};

struct KernelPlan {
  std::unique_ptr<Kernel> kernel;
  TaskKind kind = TaskKind::kAiCore;
  size_t workspace_bytes = 0;
  // Outputs that may take over the buffer of an input of as many bytes: for each such pair the
  // kernel reads every element of the input for the last time before it writes that place. A pair
  // speaks for its one input. Where several inputs show one buffer (a value and its views), the
  // output may take it over only if there is a pair for each of them, so a kernel lists all of its
  // pairs (may_overwrite).
  struct InPlace {
    size_t output = 0;
    size_t input = 0;
    // The kernel changes only a part of what it finds in the output's buffer: where that cannot be
    // the input's, the lowering copies the input there first.
    bool required = false;
  };
  std::vector<InPlace> in_place;
  // A kernel with memory of its own has output i there, own_offsets[i] bytes from its begin, and
  // changes what it finds there: the value of input i, which the lowering has computed in that
  // place, or copies there.
  void* own_memory = nullptr;
  std::vector<size_t> own_offsets;
  // The last argument, behind the workspace, is a uint32_t into which the blocks OR the bits of
  // kFloatStatus... that they raise (raise_float_status); it is the task's own and 0 when a step
  // begins.
  bool float_status = false;
  int block_dim = 1;
  std::string reason;     // why no more blocks, or which variant of the kernel
  int64_t device_ns = 0;  // modelled time of one run
};

// States of a step that are kept in a layout of their own, and the values that become their next
// ones: a kernel that makes such a value writes all of the layout.
struct StateLayout {
  std::string state;
  Layout layout;
  size_t bytes = 0;
};
using StateLayouts = std::unordered_map<Value, StateLayout, ValueHash>;
// Returns the layout of the state or next value that `v` shows; null where that is plain.
KEEL_API const StateLayout* layout_of(const StateLayouts& layouts, Value v);

class KEEL_API KernelLibrary {
 public:
  virtual ~KernelLibrary();
  // Says whether there is a kernel for a specialised node that is neither source, view nor control.
  virtual Support supports(const Node& node) const = 0;
  // Returns how the states of a step are best kept, chosen before its nodes are planned. By default
  // plainly.
  virtual StateLayouts choose_layouts(const Graph& step) const;
  virtual KernelPlan plan(const Node& node, const StateLayouts& layouts) const = 0;
  // Plans a node that is placed on the host (graph/ir/placement.h), which may touch the memory: by
  // the kernel of `cpu` where the policy placed it, else by its reference function.
  virtual KernelPlan plan_on_host(const Node& node) const;
  virtual KernelPlan plan_copy(size_t bytes) const = 0;
  // Plans the reading of so many status words into a bool. By default it takes no modelled time.
  virtual KernelPlan plan_status_read(size_t words) const;
  // Plans the task of a row view (row_view.h). By default it takes no modelled time.
  virtual KernelPlan plan_row_view(const Node& node) const;
  // Modelled time of a control task.
  virtual int64_t control_ns(TaskKind kind) const = 0;
  // Plans a sum over ranks (all_reduce_kernel.h). By default it takes no modelled time.
  virtual KernelPlan plan_all_reduce(const Node& node) const;
};

// Returns what Backend::supports answers for any node: sources, views, dequeue, step_end,
// float_status and sums over ranks run anywhere; control ops and fused nodes are supported when
// their bodies' nodes are; what is placed on the host needs a reference function.
KEEL_API Support supports_in_task_list(const KernelLibrary& library, const Node& node);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_KERNEL_H

// TaskList: a compiled program as the interpreter runs it: flat tasks whose arguments are indices
// into a buffer table. The table is filled at each launch from where the buffers live; DEQUEUE
// rewrites the slot's entries, COMMIT swaps those of states with two buffers. Made by lower(),
// immutable afterwards.
#ifndef KEEL_BACKENDS_COMMON_TASK_LIST_H
#define KEEL_BACKENDS_COMMON_TASK_LIST_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "keel/backends/common/kernel.h"
#include "keel/core/device/program.h"

namespace keel {

// Says where the bytes of a table entry are.
enum class Space : uint8_t {
  kScratch,
  kConstant,
  kState,
  kStateOther,
  kInput,
  kOutput,
  kSlot,
  kFloatStatus,  // a task's status word, see KernelPlan::float_status
  kRow,          // a row of another entry: the last task with shows_row() set where it begins
  kOwn,          // memory of a kernel's own, see KernelPlan::own_memory
};

struct BufferRef {
  Space space = Space::kScratch;
  // Which state, input, output, slot field, status word or kernel's memory; of a row, the entry
  // that it lies in.
  uint32_t index = 0;
  size_t offset = 0;  // in scratch, constants and a kernel's memory
  size_t bytes = 0;
};

enum class Jump : uint8_t {
  kNone,
  kAlways,     // to target
  kNextTurn,   // to target, a loop's next turn; where the stop flag is set, the step is given up
  kIfFalse,    // to target when the bool argument 0 is false; an Error where it is true though the
               // i64 argument 1, if there is one, has reached `limit`
  kIfReached,  // to target when the i64 argument 0 has reached `limit`
  kStepsDone,  // to target when the launch's steps are done, its stop flag is set, or the bool
               // argument 0, where there is one, is true
  kIfNoElement,  // of DEQUEUE: to target when no element came
};

struct Task {
  TaskKind kind = TaskKind::kAiCore;
  Jump jump = Jump::kNone;
  uint32_t first_argument = 0;
  uint32_t argument_count = 0;
  uint32_t target = 0;
  int64_t limit = 0;
  int64_t device_ns = 0;
  const Kernel* kernel = nullptr;
  bool waits = false;  // the kernel, for something outside
  // A row view names the entry of Space::kRow that from then on begins at the byte which the kernel
  // wrote to its last argument, an i64.
  uint32_t row = kNoRow;

  static constexpr uint32_t kNoRow = UINT32_MAX;
  bool shows_row() const noexcept { return row != kNoRow; }
};

// Holds what people read about a task; never touched while it runs.
struct TaskInfo {
  std::string name;                  // display_name of its node, or what the control task is for
  std::string op;                    // op_text of its node; empty for control tasks
  std::vector<std::string> members;  // names of the nodes it computes; empty for control tasks
  std::string types;                 // inputs -> outputs
  CallSite site;
  int block_dim = 1;
  std::string reason;
  // Counts a kernel's arguments: how many inputs come first, then the outputs, then its workspace.
  uint32_t inputs = 0;
  bool infinite_attribute = false;  // of the node, as what a pad fills with may be
  bool checks_finiteness = false;   // the node (graph/ir/finiteness_check.h)
  std::vector<DType> outputs;
  // The inputs, then the outputs, which an OpObserver is shown. Empty for tasks that no node stands
  // behind.
  std::vector<Type> operands;
  std::vector<size_t> changed;  // outputs that the kernel finds filled, and changes in part
};

// First and last task that need a table entry; -1 where none does.
struct EntryLife {
  int64_t first = -1;
  int64_t last = -1;
};

struct TaskList {
  std::vector<Task> tasks;
  std::vector<TaskInfo> infos;  // one for each task
  std::vector<uint32_t> arguments;
  std::vector<BufferRef> table;
  std::vector<EntryLife> lives;  // one for each table entry
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<void*> own_memories;  // of kernels that have one
  // Constants and where they go in the constant arena.
  std::vector<std::pair<size_t, Tensor>> constants;
  uint32_t most_arguments = 0;
  std::vector<uint32_t> status_tasks;  // for each status word the task that raises it
  // The sunk step may stop the loop by a value of its own, which other ranks need not have.
  bool has_stop_value = false;
  ProgramInfo info;
};

// Returns the task list of a compiled graph (specialised, decomposed, perhaps fused). A graph whose
// only node is `sunk_loop` becomes the loop over its body: the step, LOOP_INC, LOOP_SWITCH,
// LOOP_ACTIVE (back to the first task), LOOP_RESET. Throws Error where nothing marks the end of
// that step.
KEEL_API TaskList lower(const Graph& graph, const KernelLibrary& library);

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TASK_LIST_H

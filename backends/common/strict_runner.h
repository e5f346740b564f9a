// StrictRunner: runs the kernels of a TaskList so that what plain runs get away with shows. Each
// task works on copies of its operands of exactly their size between guards; outputs and workspace
// begin as poison; each block of a phase runs alone. The task runs twice with different poison, and
// must give the same bits: first with memory of its own for each output, also for one that is
// written in place of an input; then as planned, where a block sees nothing that its neighbours
// write. Where the device has planned the task for its cores, it runs a third time, as planned, and
// must give the same bits again. Device memory whose life is over is poisoned. A sound task list
// gives the bits of a plain run; an unsound one gives an Error that names the argument, the block
// and the byte. Owned by an Interpreter; on the device's thread only.
//
// Its own memory is the host's and is not counted against the device's capacity. Under
// AddressSanitizer the guards are red zones, so a read beyond an operand stops the process there.
#ifndef KEEL_BACKENDS_COMMON_STRICT_RUNNER_H
#define KEEL_BACKENDS_COMMON_STRICT_RUNNER_H

#include <cstdint>
#include <string>
#include <vector>

#include "keel/backends/common/guarded_memory.h"
#include "keel/backends/common/planned_run.h"
#include "keel/backends/common/task_list.h"

namespace keel {

class StrictRunner {
 public:
  // Addresses of the table's entries, as the interpreter keeps them.
  using Table = std::vector<void*>;

  // REQUIRES that the list outlives the runner.
  explicit StrictRunner(const TaskList& list, PlannedRuns planned = {});

  // Everything that a launch may not rely on is poisoned.
  void begin_launch(const Table& table);
  // Control reaches `task`: what died before it is poisoned, what it reads must be alive.
  void reach(size_t task, const Table& table);
  void run_kernel(size_t task, const Table& table);
  // These stand around a kernel that waits, which runs once and on the memory itself.
  void begin_waiting(size_t task, const Table& table);
  void end_waiting(size_t task);
  // The slot's bytes are the producer's again; its entries in the table become null.
  void release_slot(Table& table);
  // Poisons the buffers that hold the old values now, by the arguments of the COMMIT task.
  void commit(size_t task, const Table& table);

 private:
  // An operand of a task: what the arguments of one table entry share.
  struct Operand {
    uint32_t entry = 0;
    std::string name;  // "input 0", "input 1 and in place output 0", "workspace"
    bool input = false;
    bool output = false;
    bool writable = false;
    bool changed = false;  // an output that the kernel finds filled
    size_t element_size = 1;

    bool in_place() const { return input && output; }
  };
  // Says which operand each argument is; -1 for what kernels get as it is.
  using OfArgument = std::vector<int32_t>;
  struct TaskOperands {
    // Holds the plan's operands and behind them the inputs of those that are written in place, once
    // more.
    std::vector<Operand> operands;
    OfArgument as_planned;
    OfArgument apart;  // with those last ones in place of what an output overwrites
  };
  // The two runs of a task.
  enum class Run { kApart, kAsPlanned };
  // The bytes of the writable operands while the blocks of a phase run one by one.
  struct Range {
    size_t begin = 0, end = 0;
  };
  struct PhaseState {
    std::vector<char> before, after;
    std::vector<char> base;                   // what a block finds where others write
    std::vector<uint16_t> writer;             // of each byte: block + 1, 0 where nobody wrote
    std::vector<std::vector<Range>> written;  // by block, of the first run
  };

  TaskOperands operands_of(size_t task) const;
  static void add_originals(TaskOperands* plan, uint32_t inputs);
  void require_alive(size_t task, const Operand& operand, const Table& table) const;
  void require_free(size_t task, const Operand& operand) const;
  void require_operands(size_t task, const Table& table) const;
  void begin_life(uint32_t entry);
  void poison_entry(uint32_t entry, const Table& table);

  void load(const TaskOperands& plan, const Table& table, Run run, Poison poison);
  void set_arguments(size_t task, const Table& table, Run run);
  void run_phases(size_t task, const Table& table, Run run, bool hide_neighbours);
  void run_alone(const TaskOperands& plan, const Kernel& kernel, int phase, bool hide_neighbours);
  void run_block(const TaskOperands& plan, const Kernel& kernel, int phase, int block);
  void check_inputs(const TaskOperands& plan, const Table& table, const Kernel& kernel, int phase);
  void begin_phase(PhaseState& state, size_t operand, size_t blocks, bool hide_neighbours);
  static void collect(const Operand& operand, PhaseState& state, char* core, int phase,
                      size_t block, bool hide_neighbours);
  void check_outputs(size_t task, const Table& table);
  void check_overwritten(size_t task, const Table& table);
  uint32_t* status_of(size_t task, const Table& table) const;
  void run_as_planned(size_t task, const Table& table, uint32_t* status);

  const TaskList& list_;
  const PlannedRuns planned_;
  std::vector<TaskOperands> tasks_;  // empty operands for control tasks
  std::vector<uint8_t> alive_;       // by table entry, of those in scratch
  std::vector<uint8_t> was_alive_;   // in this launch
  std::vector<uint32_t> living_;
  GuardedMemory cores_;
  std::vector<std::vector<PhaseState>> phases_;  // of the running task: phase, operand
  std::vector<std::vector<char>> first_;         // results of the run apart, by operand
  std::vector<void*> arguments_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_STRICT_RUNNER_H

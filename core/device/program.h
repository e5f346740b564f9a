// Program: a graph compiled for one device: a flat list of tasks with kernels, tiling and buffer
// places already chosen. Made by Backend::compile, owned by a Session's Executable, which also owns
// what the program works on: the state buffers, the scratch arena, inputs and outputs. LaunchArgs
// hands those over for one launch. Immutable after compile; one launch at a time.
#ifndef KEEL_CORE_DEVICE_PROGRAM_H
#define KEEL_CORE_DEVICE_PROGRAM_H

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/shape.h"
#include "keel/core/device/element_spec.h"
#include "keel/core/device/op_observer.h"
#include "keel/core/device/stream.h"
#include "keel/core/group/agreement.h"

namespace keel {

class DeviceQueue;
class MetricsQueue;

// Names how a state's bytes are arranged in its buffer. "" is the plain row-major order. Every
// other layout begins with the plain value, so that reads and programs that want it plain take the
// buffer as it is; behind it come copies made from it, in an arrangement that the word names and
// that the program's backend can make (Backend::convert_layout). A program that updates a state
// keeps the copies of the layout it asks for; one that asks for "" and updates the state leaves
// them stale.
using Layout = std::string;

struct StateInfo {
  std::string name;
  Type type;
  Layout layout;
  size_t bytes = 0;            // of a buffer in that layout
  bool updated = false;        // whether the program writes it
  bool second_buffer = false;  // whether the new value cannot be written in place
};

// A control task that the compiler put around a sunk step.
struct InsertedOp {
  std::string name;  // "sunk_loop/switch"
  std::string type;  // "LOOP_SWITCH"
  CallSite site;     // the user's line that ends the step
};

struct ProgramInfo {
  std::vector<StateInfo> states;
  std::vector<FieldSpec> inputs;  // by position in LaunchArgs::inputs; of a program that a queue
                                  // feeds: the queue's resident fields
  std::vector<Type> outputs;      // by position in LaunchArgs::outputs
  std::vector<bool>
      output_is_metric;  // rank-0 fetches of a sunk program travel through the MetricsQueue as well
  size_t scratch_bytes = 0;
  size_t scratch_lower_bound = 0;  // most bytes live at any one task
  std::string scratch_peak;        // that task: "task 3 (matmul)"; "" where there is no scratch
  CallSite scratch_peak_site;
  size_t constant_bytes = 0;
  int64_t task_count = 0;                // of one step
  bool sunk = false;                     // takes steps, queue and metrics
  std::vector<InsertedOp> inserted_ops;  // of a sunk program, in task order
  std::string modelled_device;           // whose times these are: "ascend910b1"
  std::optional<int64_t>
      step_device_ns;  // modelled device time of one step (device clock), where priced
  std::optional<int64_t>
      launch_device_ns;  // modelled host launch and synchronisation, where priced
};

// Reports what a launch did. Written by the device; read after Stream::synchronize.
struct LaunchReport {
  int64_t steps = 0;         // completed
  bool end_of_data = false;  // the queue ended before the steps asked for
  bool cancelled = false;    // the stop flag was seen
  bool stopped = false;      // the last completed step's own stop value was true
  // Says why all parties left the loop; of a launch without others its own reason. kGoOn where no
  // vote ended it: a step was given up, or an error came.
  LoopVote verdict = LoopVote::kGoOn;
  bool left_with_others = false;  // this party alone would have gone on, or had a weaker reason
  // The stop flag was seen inside the step after `steps`, in a loop of its own: that step was given
  // up. It wrote no state, and its element is the queue's next one again.
  bool step_given_up = false;
  bool failed = false;  // error is set; the step after `steps` may have been half done
  std::exception_ptr error;
  Cursor cursor;  // of the last element consumed by a completed step
  int64_t device_ns =
      0;  // modelled time of the tasks executed (device clock); 0 where nothing is priced
  // Collects what the arithmetic of the launch raised (float_status.h), all steps together; set for
  // a launch that failed, too. Each completed step's is in its row of the metrics.
  uint32_t float_status = 0;
  // The first task that raised any, with the user's line: "hidden1/matmul (mlp.cpp:8)". Empty where
  // none did, as where a fetched number alone shows it.
  std::string float_status_by;
  int64_t queue_wait_ns = 0;    // wall time in DEQUEUE
  int64_t true_branches = 0;    // LOOP_SWITCH of the sunk loop went on to a next step
  int64_t resets = 0;           // LOOP_RESET of the sunk loop
  int64_t busy_ns = 0;          // wall time from the first task to the last
  int64_t metrics_wait_ns = 0;  // wall time the metrics ring was full
};

struct StateBuffers {
  Buffer* current = nullptr;  // holds the value
  Buffer* other = nullptr;    // set where StateInfo::second_buffer; COMMIT swaps the two
  // Set by a launch that failed after it had begun to write the next value over `current`. Buffers
  // of which this is not so hold what the completed steps left.
  bool lost = false;
};

// Everything must stay alive and untouched until the stream has been synchronised.
struct LaunchArgs {
  std::vector<StateBuffers> states;  // in ProgramInfo order; updated by the launch
  Buffer* scratch = nullptr;
  std::vector<Buffer*> inputs;
  std::vector<Buffer*> outputs;
  int64_t steps = 1;
  DeviceQueue* queue = nullptr;
  // The ring that the launch puts each step's rank-0 fetches into; null: nobody waits for them. A
  // launch that is given one calls its end_launch() once, as the last thing that it does, however
  // it ends: the loop waits for that.
  MetricsQueue* metrics = nullptr;
  const std::atomic<bool>* stop = nullptr;
  // With the other parties of a sunk loop; none: null. Where they are ranks (group_of), the launch
  // calls begin_step() of their group for each step behind the first one.
  LoopAgreement* agreement = nullptr;
  int64_t first_step = 0;  // number that metrics and errors give to the launch's first step
  // Where there is one it is shown each op. Slow.
  OpObserver* observer = nullptr;
  LaunchReport report;
};

class KEEL_API Program {
 public:
  virtual ~Program();
  virtual const ProgramInfo& info() const = 0;
  // Enqueues the launch, which ends with a call of end_launch() where args.metrics is set. Errors
  // surface at Stream::synchronize and in args.report; only one thrown here needs no end.
  virtual void launch(Stream& stream, LaunchArgs& args) = 0;
  // Returns the task list as text, one task a line: what became one task, where it runs, and why.
  virtual std::string describe() const = 0;
  // Returns the names of the ops that LaunchArgs::observer is shown, in the order of the tasks; of
  // a backend that shows none, nothing.
  virtual std::vector<std::string> op_names() const;
};

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_PROGRAM_H

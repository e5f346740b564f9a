// TaskProgram: a Program made of a TaskList, run by the Interpreter on a WorkerStream: what every
// built-in backend compiles to.
#ifndef KEEL_BACKENDS_COMMON_TASK_PROGRAM_H
#define KEEL_BACKENDS_COMMON_TASK_PROGRAM_H

#include <memory>
#include <string>
#include <vector>

#include "keel/backends/common/interpreter.h"
#include "keel/core/device/program.h"

namespace keel {

class KEEL_API TaskProgram : public Program {
 public:
  // Copies the list's constants into `constants` (device memory of list.info.constant_bytes)
  // through `transfer`.
  TaskProgram(TaskList list, std::shared_ptr<Buffer> constants, Stream& transfer,
              InterpreterOptions options = {});
  ~TaskProgram() override;

  const ProgramInfo& info() const override { return list_.info; }
  const TaskList& list() const noexcept { return list_; }
  // REQUIRES a kCompute stream of the same backend.
  void launch(Stream& stream, LaunchArgs& args) override;
  std::string describe() const override;
  std::vector<std::string> op_names() const override;

 private:
  const TaskList list_;
  std::shared_ptr<Buffer> constants_;
  Interpreter interpreter_;
};

}  // namespace keel

#endif  // KEEL_BACKENDS_COMMON_TASK_PROGRAM_H

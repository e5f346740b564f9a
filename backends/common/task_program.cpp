#include "keel/backends/common/task_program.h"

#include <utility>

#include "keel/backends/common/task_text.h"
#include "keel/backends/common/worker_stream.h"
#include "keel/core/base/error.h"

namespace keel {

TaskProgram::TaskProgram(TaskList list, std::shared_ptr<Buffer> constants, Stream& transfer,
                         InterpreterOptions options)
    : list_(std::move(list)),
      constants_(std::move(constants)),
      interpreter_(list_, constants_.get(), std::move(options)) {
  for (const auto& [offset, value] : list_.constants) {
    if (value.num_bytes() == 0) continue;
    transfer.copy_to_device(*constants_, offset, value.raw(), value.num_bytes());
  }
  transfer.synchronize();
}

TaskProgram::~TaskProgram() = default;

void TaskProgram::launch(Stream& stream, LaunchArgs& args) {
  auto* worker = dynamic_cast<WorkerStream*>(&stream);
  if (worker == nullptr) {
    throw Error({.op = "launch",
                 .argument = "stream",
                 .expected = "a compute stream of this device",
                 .got = "another stream"});
  }
  worker->enqueue([this, &args] {
    interpreter_.launch(args);
    if (args.report.error != nullptr) std::rethrow_exception(args.report.error);
  });
}

std::string TaskProgram::describe() const { return keel::describe(list_); }

std::vector<std::string> TaskProgram::op_names() const {
  std::vector<std::string> names;
  for (const TaskInfo& info : list_.infos) {
    if (!info.operands.empty()) names.push_back(info.name);
  }
  return names;
}

}  // namespace keel

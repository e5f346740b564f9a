#include "keel/backends/common/task_program.h"

#include <utility>

#include "keel/backends/common/worker_stream.h"
#include "keel/core/base/error.h"

namespace keel {

TaskProgram::TaskProgram(TaskList list, std::shared_ptr<Buffer> constants, Stream& transfer,
                         WalkerOptions options)
    : list_(std::move(list)),
      constants_(std::move(constants)),
      walker_(list_, constants_.get(), std::move(options)) {
  for (const auto& [offset, value] : list_.constants) {
    if (value.num_bytes() == 0) continue;
    transfer.copy_to_device(*constants_, offset, value.raw(), value.num_bytes());
  }
  transfer.synchronize();
}

void TaskProgram::launch(Stream& stream, LaunchArgs& args) {
  auto* worker = dynamic_cast<WorkerStream*>(&stream);
  if (worker == nullptr) {
    throw Error({.op = "launch",
                 .argument = "stream",
                 .expected = "a compute stream of this device",
                 .got = "another stream"});
  }
  worker->enqueue([this, &args] {
    walker_.launch(args);
    if (args.report.error != nullptr) std::rethrow_exception(args.report.error);
  });
}

std::string TaskProgram::describe() const { return keel::describe(list_); }

std::string describe(const TaskList& list) {
  std::string text;
  for (size_t i = 0; i < list.tasks.size(); ++i) {
    const Task& task = list.tasks[i];
    const TaskInfo& info = list.infos[i];
    text += std::to_string(i) + "  " + name_of(task.kind) + "  " + info.name;
    if (!info.op.empty()) text += " = " + info.op;
    if (!info.types.empty()) text += "  " + info.types;
    if (task.kernel != nullptr) text += "  block_dim " + std::to_string(info.block_dim);
    if (!info.reason.empty()) text += "  [" + info.reason + "]";
    if (task.jump != Jump::kNone) text += "  -> " + std::to_string(task.target);
    if (task.device_ns != 0) text += "  " + std::to_string(task.device_ns) + " ns (device)";
    if (info.site.known()) text += "  (" + to_string(info.site) + ")";
    text += "\n";
  }
  return text;
}

}  // namespace keel

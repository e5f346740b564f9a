// HostLaunch: a task list with memory of its own, launched without a session or a backend.
#ifndef KEEL_TESTS_UNIT_HOST_LAUNCH_FOR_TESTS_H
#define KEEL_TESTS_UNIT_HOST_LAUNCH_FOR_TESTS_H

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "keel/backends/common/task_program.h"
#include "keel/backends/common/worker_stream.h"

namespace keel::testing {

class NoTransfer final : public MemoryTransfer {
 public:
  void to_device(Buffer& to, size_t offset, const void* from, size_t bytes) override {
    std::memcpy(static_cast<char*>(to.address()) + offset, from, bytes);
  }
  void to_host(void*, const Buffer&, size_t, size_t) override {}
};

// One launch of a task list in host memory; the inputs, states and outputs are in `buffers` of it.
class HostLaunch {
 public:
  HostLaunch(TaskList list, bool strict, PlannedRuns planned = {})
      : memory_(std::make_shared<NoTransfer>()), transfer_(memory_), stream_(memory_) {
    auto constants = allocate_host_buffer(list.info.constant_bytes);
    program_ = std::make_unique<TaskProgram>(
        std::move(list), std::move(constants), transfer_,
        InterpreterOptions{.strict = strict, .planned = std::move(planned)});
    const ProgramInfo& info = program_->info();
    args.scratch = make(info.scratch_bytes);
    for (const FieldSpec& f : info.inputs) args.inputs.push_back(make(f.type));
    for (const Type& t : info.outputs) args.outputs.push_back(make(t));
    for (const StateInfo& s : info.states) {
      args.states.push_back({make(s.bytes), s.second_buffer ? make(s.bytes) : nullptr});
    }
  }

  void run() {
    program_->launch(stream_, args);
    stream_.synchronize();
  }

  LaunchArgs args;

 private:
  Buffer* make(size_t bytes) {
    buffers_.push_back(allocate_host_buffer(bytes));
    return buffers_.back().get();
  }
  Buffer* make(const Type& type) { return make(type.shape.num_bytes(type.dtype)); }

  std::shared_ptr<MemoryTransfer> memory_;
  InlineStream transfer_;
  WorkerStream stream_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  std::unique_ptr<TaskProgram> program_;
};

}  // namespace keel::testing

#endif  // KEEL_TESTS_UNIT_HOST_LAUNCH_FOR_TESTS_H

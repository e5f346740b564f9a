#include "keel/backends/npu/profile/profile.h"

#include <filesystem>
#include <system_error>

#include "keel/backends/npu/profile/tables.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"

namespace keel::npu {
namespace {

constexpr int64_t kLastStep = 1000000;

[[noreturn]] void wrong(const std::string& argument, const std::string& expected,
                        const std::string& got) {
  throw Error({.op = "profile",
               .argument = argument,
               .expected = expected,
               .got = got,
               .kind = ErrorKind::kInvalidArgument});
}

void check(const ProfileOptions& o) {
  if (o.first_step < 1 || o.last_step < o.first_step || o.last_step > kLastStep ||
      o.last_step - o.first_step >= kMostProfiledSteps) {
    wrong("steps",
          "A-B with 1 <= A <= B <= " + std::to_string(kLastStep) + ", at most " +
              std::to_string(kMostProfiledSteps) + " of them",
          std::to_string(o.first_step) + "-" + std::to_string(o.last_step));
  }
  if (o.steps_per_launch < 1) {
    wrong("steps per launch", "at least 1", std::to_string(o.steps_per_launch));
  }
  if (o.queue_depth < 1) wrong("queue depth", "at least 1", std::to_string(o.queue_depth));
}

void make_folder(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (std::filesystem::is_directory(directory)) return;
  throw Error({.op = "profile",
               .argument = directory,
               .message = "the folder cannot be made: " + error.message()});
}

}  // namespace

void write_profile(const Program& program, const ProfileOptions& options) {
  const auto* npu = dynamic_cast<const NpuProgram*>(&program);
  if (npu == nullptr) {
    throw Error({.op = "profile",
                 .argument = "program",
                 .expected = "one that was compiled for the NPU",
                 .got = "another backend's",
                 .fix = "train with --backend npu",
                 .kind = ErrorKind::kInvalidArgument});
  }
  check(options);
  make_folder(options.directory);
  const StepClock clock = make_step_clock(*npu, options);
  const std::string folder = options.directory + "/";
  write_file_atomically(folder + "op_summary.csv", op_summary(*npu, clock));
  write_file_atomically(folder + "op_statistic.csv", op_statistic(*npu, clock));
  write_file_atomically(folder + "step_trace.csv", step_trace(clock));
  write_file_atomically(folder + "timeline.json", timeline(*npu, clock, options));
  write_file_atomically(folder + "advice.txt", advice(*npu, clock));
}

}  // namespace keel::npu

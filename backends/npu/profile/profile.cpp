#include "keel/backends/npu/profile/profile.h"

#include <filesystem>
#include <system_error>

#include "keel/backends/npu/profile/tables.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"

namespace keel::npu {
namespace {

constexpr int64_t kLastStep = 1000000;
constexpr const char* kOpSummary = "op_summary.csv";
constexpr const char* kOpStatistic = "op_statistic.csv";
constexpr const char* kStepTrace = "step_trace.csv";
constexpr const char* kTimeline = "timeline.json";
constexpr const char* kAdvice = "advice.txt";

std::string path_in(const std::string& directory, const char* name) {
  return directory + "/" + name;
}

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
  const auto write = [&](const char* name, const std::string& text) {
    write_file_atomically(path_in(options.directory, name), text);
  };
  write(kOpSummary, op_summary(*npu, clock));
  write(kOpStatistic, op_statistic(*npu, clock));
  write(kStepTrace, step_trace(clock));
  write(kTimeline, timeline(*npu, clock, options));
  write(kAdvice, advice(*npu, clock));
}

std::vector<std::string> profile_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const char* name : {kOpSummary, kOpStatistic, kStepTrace, kTimeline, kAdvice})
    files.push_back(path_in(directory, name));
  return files;
}

}  // namespace keel::npu

#include "keel/backends/npu/profile/profile.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "keel/backends/npu/profile/tables.h"
#include "keel/core/base/error.h"
#include "keel/core/base/file.h"

namespace keel::npu {
namespace {

constexpr int64_t kLastStep = 1000000;

using MakeFile = std::string (*)(const NpuProgram&, const StepClock&, const ProfileOptions&);

bool traces_steps(const ProfilingOptions& p) { return p.training_trace; }
bool traces_tasks(const ProfilingOptions& p) { return p.task_trace != TaskTrace::kOff; }

bool tells_of_tasks(const ProfilingOptions& p) { return p.task_trace == TaskTrace::kL1; }

// The files that there may be, what switches each of them, and who makes it.
struct ProfileFile {
  const char* name;
  bool (*wanted)(const ProfilingOptions&);
  MakeFile make;
};
constexpr ProfileFile kFiles[] = {
    {"op_summary.csv", traces_tasks,
     [](const NpuProgram& program, const StepClock& clock, const ProfileOptions& options) {
       return op_summary(program, clock, options.profiling);
     }},
    {"op_statistic.csv", traces_tasks,
     [](const NpuProgram& program, const StepClock& clock, const ProfileOptions&) {
       return op_statistic(program, clock);
     }},
    {"step_trace.csv", traces_steps,
     [](const NpuProgram& program, const StepClock& clock, const ProfileOptions& options) {
       return step_trace(program, clock, options.profiling);
     }},
    {"timeline.json", traces_tasks, timeline},
    {"advice.txt", tells_of_tasks,
     [](const NpuProgram& program, const StepClock& clock, const ProfileOptions&) {
       return advice(program, clock);
     }},
    {"aicpu.csv", [](const ProfilingOptions& p) { return p.aicpu; },
     [](const NpuProgram& program, const StepClock& clock, const ProfileOptions&) {
       return aicpu(program, clock);
     }},
    {"api_statistic.csv", [](const ProfilingOptions& p) { return p.runtime_api; },
     [](const NpuProgram&, const StepClock& clock, const ProfileOptions& options) {
       return api_statistic(clock, options.device);
     }},
};

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
  std::error_code error, unknown;  // the first one says why there is none
  std::filesystem::create_directories(directory, error);
  if (std::filesystem::is_directory(directory, unknown)) return;
  throw Error({.op = "profile",
               .argument = directory,
               .message = "the folder cannot be made: " + error.message()});
}

// A file that this profile does not have would be read as a part of it.
void refuse_old(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) return;
  throw Error({.op = "profile",
               .argument = path,
               .message = "is of another profile, and this one is without it",
               .fix = "remove it, or choose another folder"});
}

// Paths and their texts.
using Files = std::vector<std::pair<std::string, std::string>>;

// All or none: a folder with some of them would be read as one profile.
void write_all(const Files& files) {
  std::vector<std::unique_ptr<AtomicFile>> written;
  for (const auto& [path, text] : files) {
    written.push_back(std::make_unique<AtomicFile>(path));
    written.back()->write(text);
  }
  size_t begun = 0;
  try {
    for (const auto& file : written) {
      ++begun;
      file->commit();
    }
  } catch (const Error&) {
    // The last one may be in place, and not be synced.
    std::error_code unknown;
    for (size_t i = 0; i < begun; ++i) std::filesystem::remove(files[i].first, unknown);
    throw;
  }
}

void require_room(const Files& files, const ProfilingOptions& profiling) {
  if (!profiling.storage_limit_mb) return;
  constexpr int64_t kMiB = int64_t{1} << 20;
  int64_t bytes = 0;
  for (const auto& [path, text] : files) bytes += static_cast<int64_t>(text.size());
  if (bytes <= *profiling.storage_limit_mb * kMiB) return;
  throw Error({.op = "profiling options",
               .argument = "storage_limit",
               .expected = "files of at most " + std::to_string(*profiling.storage_limit_mb) + "MB",
               .got = std::to_string(bytes / kMiB + 1) + "MB",
               .fix = "profile fewer steps, or raise the limit",
               .kind = ErrorKind::kInvalidArgument});
}

const NpuProgram& npu_program(const Program& program) {
  if (has_profile(program)) return static_cast<const NpuProgram&>(program);
  throw Error({.op = "profile",
               .argument = "program",
               .expected = "one that was compiled for the NPU",
               .got = "another backend's",
               .fix = "train with --backend npu",
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

bool has_profile(const Program& program) {
  return dynamic_cast<const NpuProgram*>(&program) != nullptr;
}

std::vector<ProfiledSpan> profiled_spans(const Program& program, const ProfileOptions& options) {
  const NpuProgram& npu = npu_program(program);
  check(options);
  return spans_of(npu, make_step_clock(npu, options));
}

void write_profile(const Program& program, const ProfileOptions& options) {
  const NpuProgram& npu = npu_program(program);
  check(options);
  const StepClock clock = make_step_clock(npu, options);
  Files files;
  for (const ProfileFile& file : kFiles) {
    const std::string path = path_in(options.directory, file.name);
    if (file.wanted(options.profiling))
      files.push_back({path, file.make(npu, clock, options)});
    else
      refuse_old(path);
  }
  require_room(files, options.profiling);
  make_folder(options.directory);
  write_all(files);
}

std::vector<std::string> profile_files(const std::string& directory,
                                       const ProfilingOptions& profiling) {
  std::vector<std::string> files;
  for (const ProfileFile& file : kFiles) {
    if (file.wanted(profiling)) files.push_back(path_in(directory, file.name));
  }
  return files;
}

}  // namespace keel::npu

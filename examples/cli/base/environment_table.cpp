#include "cli/base/environment_table.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <unistd.h>
#include <utility>

#include <keel/backends/npu/presets/preset.h>
#include <keel/backends/npu/profile/profiling_options.h>
#include <keel/core/device/job_variables.h>
#include <keel/core/group/join_group.h>
#include <keel/keel.h>

namespace keel_cli {
namespace {

// The subject of a variable.
enum class Of : uint8_t {
  kTool,      // the tool or the machine, in whatever it does
  kTraining,  // one training: checked by each, see check_training_environment
  kRun,       // where this process is in a job, and how it runs its steps
};

struct Variable {
  const char* name;
  const char* about;
  // Throws keel::Error for the value that is set.
  void (*check)(const std::string& name);
  Of of = Of::kTool;
};

void is_any(const std::string&) {}
void is_count(const std::string& name) { keel::environment_integer(name, 1); }
void is_seconds(const std::string& name) { keel::environment_integer(name, 1, 7200); }
void is_descriptor(const std::string& name) {
  keel::environment_integer(name, 0, std::numeric_limits<int>::max());
}
void is_on_or_off(const std::string& name) { keel::environment_choice(name, {"0", "1"}); }

// Runs a reader of several variables: its errors name the one that is to be changed.
template <class Read>
void check_own(const std::string& name, Read read) {
  try {
    static_cast<void>(read());
  } catch (const keel::Error& error) {
    if (error.info().op == name) throw;
  }
}

// A variable is wrong in itself, or the job is wrong because of it.
void is_of_job(const std::string& name) {
  keel::check_job_variable(name);
  check_own(name, [] { return keel::read_join_options(keel::read_job_environment().place); });
}

constexpr Variable kVariables[] = {
    {"NPU_LOOP_SIZE", "steps in one launch, where --loop-size says nothing", is_count, Of::kRun},
    {"ASCEND_DEVICE_ID", "number of the device, where --device-id says nothing", is_of_job,
     Of::kRun},
    {"DEVICE_ID", "the same, where ASCEND_DEVICE_ID is not set either", is_of_job, Of::kRun},
    {"ENABLE_FORCE_V2_CONTROL", "1: keel import converts control flow of version 1 to version 2",
     is_any},
    {"JOB_ID", "a label of the run, in the summary (job_id)", is_of_job, Of::kRun},
    {"RANK_SIZE", "ranks of the job (1)", is_of_job, Of::kRun},
    {"RANK_ID", "which of them this process is (0)", is_of_job, Of::kRun},
    {"RANK_TABLE_FILE", "JSON: the job's ranks and their devices", is_of_job, Of::kRun},
    {"HCCL_IF_BASE_PORT", "the port on which rank 0 of a rank table listens (29600)", is_of_job,
     Of::kRun},
    {"HCCL_CONNECT_TIMEOUT", "seconds that ranks wait for one another to come (60)", is_seconds,
     Of::kRun},
    {"HCCL_EXEC_TIMEOUT", "seconds that they wait for one another afterwards (60)", is_seconds,
     Of::kRun},
    {"CM_CHIEF_IP", "without a table: where rank 0 listens", is_of_job, Of::kRun},
    {"CM_CHIEF_PORT", "the port there", is_of_job, Of::kRun},
    {"CM_CHIEF_DEVICE", "the device of rank 0: checked, and no more", is_of_job, Of::kRun},
    {"CM_WORKER_SIZE", "ranks of the job, as RANK_SIZE", is_of_job, Of::kRun},
    {"CM_WORKER_IP",
     "where this rank listens for the others (its end of the connection to CM_CHIEF_IP)", is_of_job,
     Of::kRun},
    {"KEEL_RANK_TRANSPORT",
     "sockets: ranks of one machine sum without shared memory; memory (usual)",
     [](const std::string& name) {
       keel::environment_choice(name, {"memory", "sockets"});
     },
     Of::kRun},
    {"KEEL_RANK_SOCKET", "set by keel launch: the socket to it", is_descriptor, Of::kRun},
    {"KEEL_RANK_PAGE", "set by keel launch: memory that it shares", is_descriptor, Of::kRun},
    {"PROFILING_MODE", "true: a profile, where no flag says anything of one; false",
     [](const std::string& name) {
       keel::environment_choice(name, {"true", "false"});
     },
     Of::kTraining},
    {"PROFILING_OPTIONS", "JSON: what the profile of PROFILING_MODE holds",
     [](const std::string& name) {
       keel::npu::parse_profiling_options(keel::environment_text(name).value_or("{}"), name);
     },
     Of::kTraining},
    {"STEP_NOW", "steps done before, of a training with --accelerate-train-mode by steps",
     [](const std::string& name) { check_own(name, keel::step_now_in_environment); },
     Of::kTraining},
    {"TOTAL_STEP", "steps of all of it",
     [](const std::string&) { keel::total_step_in_environment(); }, Of::kTraining},
    {"LOSS_NOW", "the loss before, of one with --accelerate-train-mode by the loss",
     [](const std::string&) { keel::loss_now_in_environment(); }, Of::kTraining},
    {"TARGET_LOSS", "what it is to come to, where --target-loss says nothing",
     [](const std::string&) { keel::target_loss_in_environment(); }, Of::kTraining},
    {"KEEL_LOG", "trace, debug, info, warn (usual), error or off: what the log shows",
     [](const std::string&) { static_cast<void>(keel::log_level_in_environment()); }},
    {"KEEL_READ_BUDGET_MIB", "memory that a file may take, where --read-budget says nothing (256)",
     is_count},
    {"KEEL_NPU_PRESET", "the NPU to model, where --preset says nothing (ascend910b1)",
     [](const std::string&) { static_cast<void>(keel::npu::default_preset()); }},
    {"KEEL_NPU_MEMORY_MIB", "memory of each modelled device (the preset's)", is_count},
    {"KEEL_NPU_STRICT", "1: every copy is real and checked; 0", is_on_or_off},
    {"KEEL_ISA",
     "the host's instructions to compute with (the best there are), and kernels: amx:rows=pairs",
     [](const std::string&) { keel::backend("cpu").devices(); }},
    {"XDG_CACHE_HOME", "the folder in which keel/ holds the rates of kernels", is_any},
    {"HOME", "the same in its .cache, where XDG_CACHE_HOME says nothing", is_any},
    {"NO_COLOR", "set: progress in a terminal without colours", is_any},
};

}  // namespace

std::vector<EnvironmentRow> read_environment_table() {
  std::vector<EnvironmentRow> rows;
  for (const Variable& variable : kVariables) {
    EnvironmentRow row{variable.name, keel::environment_text(variable.name), variable.about, ""};
    try {
      if (row.value) variable.check(row.name);
    } catch (const keel::Error& error) {
      row.error = error.what();
      // Errors of the file that it names are about the file.
      if (!row.error.starts_with(row.name)) row.error = row.name + ": " + row.error;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void check_training_environment() {
  for (const Variable& variable : kVariables) {
    if (variable.of == Of::kTraining && keel::environment_text(variable.name))
      variable.check(variable.name);
  }
}

std::vector<std::string> environment_of_another_training() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    const bool of_this_run =
        std::any_of(std::begin(kVariables), std::end(kVariables), [&](const Variable& variable) {
          return variable.of != Of::kTool && name == variable.name;
        });
    if (!of_this_run) entries.emplace_back(*entry);
  }
  return entries;
}

}  // namespace keel_cli

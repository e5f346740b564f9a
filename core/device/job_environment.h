// JobEnvironment: what the environment says by Ascend's names about the job that this process is a
// part of: on which device it runs, and as which of how many ranks. Whoever asks for a device gets
// it checked (backends/registry.h). A plain value; the environment must not be changed by other
// threads meanwhile.
#ifndef KEEL_CORE_DEVICE_JOB_ENVIRONMENT_H
#define KEEL_CORE_DEVICE_JOB_ENVIRONMENT_H

#include <cstdint>
#include <optional>
#include <string>

#include "keel/core/base/export.h"

namespace keel {

struct JobEnvironment {
  std::optional<int> device = {};    // ASCEND_DEVICE_ID, else DEVICE_ID
  std::string device_variable = {};  // which of the two says so
  std::string job_id = {};           // JOB_ID: a label; empty without it
};

// Reads ASCEND_DEVICE_ID, DEVICE_ID, JOB_ID, RANK_SIZE, RANK_ID, RANK_TABLE_FILE and
// CM_WORKER_SIZE. Throws Error (kInvalidArgument) for values that are wrong in themselves, also of
// a variable that another one goes before, and for those that ask for what would be ignored: more
// than one rank.
KEEL_API JobEnvironment read_job_environment();

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_JOB_ENVIRONMENT_H

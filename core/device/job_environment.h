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
#include "keel/core/group/rank_place.h"

namespace keel {

struct JobEnvironment {
  // The rank table says it of this rank, else ASCEND_DEVICE_ID, else DEVICE_ID. A backend with
  // one device has no other that a table could mean.
  std::optional<int> device = {};
  std::string device_variable = {};  // which of them says so: "RANK_TABLE_FILE"
  std::string job_id = {};           // JOB_ID: a label; empty without it
  RankPlace place = {};
};

// Reads ASCEND_DEVICE_ID, DEVICE_ID, JOB_ID and what read_rank_place (core/group/rank_place.h)
// reads. Throws Error: kInvalidArgument for values that are wrong in themselves, also of a variable
// that another one goes before; kFailed for what a rank table says, and where ASCEND_DEVICE_ID,
// else DEVICE_ID, is another device than the table's.
KEEL_API JobEnvironment read_job_environment();

// Throws Error (kInvalidArgument) for a job of more than one rank in a process that has not joined
// them (join_group), which would ignore the others.
KEEL_API void require_one_rank(const JobEnvironment& job);

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_JOB_ENVIRONMENT_H

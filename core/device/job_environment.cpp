#include "keel/core/device/job_environment.h"

#include <algorithm>
#include <limits>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"

namespace keel {
namespace {

constexpr int64_t kMostRanks = int64_t{1} << 20;

[[noreturn]] void refuse_ranks(const std::string& variable, const std::string& expected,
                               const std::string& got) {
  throw Error({.op = variable,
               .expected = expected + ", since ranks do not train together yet: each process "
                                      "would train a model of its own",
               .got = got,
               .fix = "unset RANK_SIZE, RANK_ID, RANK_TABLE_FILE and CM_WORKER_SIZE, and start one "
                      "process",
               .kind = ErrorKind::kInvalidArgument});
}

void require_one_rank() {
  for (const char* variable : {"RANK_SIZE", "CM_WORKER_SIZE"}) {
    const auto size = environment_integer(variable, 1, kMostRanks);
    if (size && *size != 1) refuse_ranks(variable, "1", std::to_string(*size));
  }
  const auto rank = environment_integer("RANK_ID", 0, kMostRanks);
  if (rank && *rank != 0) refuse_ranks("RANK_ID", "0", std::to_string(*rank));
  if (const auto table = environment_text("RANK_TABLE_FILE"))
    refuse_ranks("RANK_TABLE_FILE", "none", "'" + *table + "'");
}

std::string read_job_id() {
  const std::string id = environment_text("JOB_ID").value_or("");
  const bool fits = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-';
  });
  if (fits) return id;
  throw Error({.op = "JOB_ID",
               .expected = "letters, digits, _ and -",
               .got = "'" + id + "'",
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace

JobEnvironment read_job_environment() {
  require_one_rank();
  JobEnvironment job;
  job.job_id = read_job_id();
  for (const char* variable : {"ASCEND_DEVICE_ID", "DEVICE_ID"}) {
    const auto id = environment_integer(variable, 0, std::numeric_limits<int>::max());
    if (!id || job.device) continue;
    job.device = static_cast<int>(*id);
    job.device_variable = variable;
  }
  return job;
}

}  // namespace keel

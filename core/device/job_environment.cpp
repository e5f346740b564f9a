#include "keel/core/device/job_environment.h"

#include <algorithm>
#include <limits>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/device/job_variables.h"
#include "keel/core/group/join_group.h"

namespace keel {
namespace {

std::optional<int64_t> device_in(const std::string& variable) {
  return environment_integer(variable, 0, std::numeric_limits<int>::max());
}

std::string read_job_id() {
  std::string id = environment_text("JOB_ID").value_or("");
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

// The table says on which device a rank runs, so no variable may say otherwise.
void follow_table(JobEnvironment& job) {
  const RankDevice& own = job.place.table->devices[static_cast<size_t>(job.place.rank)];
  if (job.device && *job.device != own.device)
    throw Error({.op = job.device_variable,
                 .expected = std::to_string(own.device) + ", the device_id of rank " +
                             std::to_string(own.rank) + " in " + job.place.table->source,
                 .got = std::to_string(*job.device),
                 .fix = "unset " + job.device_variable + ": the table says it"});
  job.device = own.device;
  job.device_variable = "RANK_TABLE_FILE";
}

}  // namespace

void check_job_variable(const std::string& name) {
  if (name == "JOB_ID")
    static_cast<void>(read_job_id());
  else if (name == "ASCEND_DEVICE_ID" || name == "DEVICE_ID")
    static_cast<void>(device_in(name));
  else
    check_rank_variable(name);
}

JobEnvironment read_job_environment() {
  JobEnvironment job;
  job.place = read_rank_place();
  job.job_id = read_job_id();
  for (const char* variable : {"ASCEND_DEVICE_ID", "DEVICE_ID"}) {
    const auto id = device_in(variable);
    if (!id || job.device) continue;
    job.device = static_cast<int>(*id);
    job.device_variable = variable;
  }
  if (job.place.table) follow_table(job);
  return job;
}

void require_one_rank(const JobEnvironment& job) {
  const RankPlace& place = job.place;
  if (place.size == 1 || has_joined_group()) return;
  const bool by_table = place.table.has_value();
  throw Error({.op = by_table                ? "RANK_TABLE_FILE"
                     : place.address.empty() ? "RANK_SIZE"
                                             : "CM_WORKER_SIZE",
               .expected =
                   "one rank, since this process has joined no others: each would work on a "
                   "model of its own",
               .got = std::to_string(place.size),
               .fix = "unset RANK_SIZE, RANK_ID, RANK_TABLE_FILE and CM_*, and start one process",
               .kind = ErrorKind::kInvalidArgument});
}

}  // namespace keel

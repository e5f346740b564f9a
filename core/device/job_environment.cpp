#include "keel/core/device/job_environment.h"

#include <algorithm>
#include <limits>

#include "keel/core/base/environment.h"
#include "keel/core/base/error.h"
#include "keel/core/device/job_variables.h"

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

void require_one(const char* variable) {
  const auto size = environment_integer(variable, 1, kMostRanks);
  if (size && *size != 1) refuse_ranks(variable, "1", std::to_string(*size));
}

void require_rank_0(const char* variable) {
  const auto rank = environment_integer(variable, 0, kMostRanks);
  if (rank && *rank != 0) refuse_ranks(variable, "0", std::to_string(*rank));
}

void require_no_table(const char* variable) {
  if (const auto table = environment_text(variable))
    refuse_ranks(variable, "none", "'" + *table + "'");
}

std::optional<int64_t> device_in(const char* variable) {
  return environment_integer(variable, 0, std::numeric_limits<int>::max());
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

// In the order in which they are looked at.
struct JobVariable {
  const char* name;
  void (*check)(const char* variable);
};
constexpr JobVariable kVariables[] = {
    {"RANK_SIZE", require_one},
    {"CM_WORKER_SIZE", require_one},
    {"RANK_ID", require_rank_0},
    {"RANK_TABLE_FILE", require_no_table},
    {"JOB_ID", [](const char*) { static_cast<void>(read_job_id()); }},
    {"ASCEND_DEVICE_ID", [](const char* variable) { static_cast<void>(device_in(variable)); }},
    {"DEVICE_ID", [](const char* variable) { static_cast<void>(device_in(variable)); }},
};

}  // namespace

void check_job_variable(const std::string& name) {
  for (const JobVariable& variable : kVariables)
    if (name == variable.name) variable.check(variable.name);
}

JobEnvironment read_job_environment() {
  for (const JobVariable& variable : kVariables) variable.check(variable.name);
  JobEnvironment job;
  job.job_id = read_job_id();
  for (const char* variable : {"ASCEND_DEVICE_ID", "DEVICE_ID"}) {
    const auto id = device_in(variable);
    if (!id || job.device) continue;
    job.device = static_cast<int>(*id);
    job.device_variable = variable;
  }
  return job;
}

}  // namespace keel

// The variables that read_job_environment() reads, one by one: for whoever shows them all, wrong
// ones included. Pure but for reading the environment, which must not be changed by other threads
// meanwhile.
#ifndef KEEL_CORE_DEVICE_JOB_VARIABLES_H
#define KEEL_CORE_DEVICE_JOB_VARIABLES_H

#include <string>

#include "keel/core/base/export.h"

namespace keel {

// Throws what read_job_environment() throws for a value that is wrong in itself, whatever the other
// variables say. REQUIRES one of its variables.
KEEL_API void check_job_variable(const std::string& name);

}  // namespace keel

#endif  // KEEL_CORE_DEVICE_JOB_VARIABLES_H

// Says what a measurement ran on, for people who read it later, and what this process took of it.
#ifndef KEEL_EXAMPLES_CLI_BASE_MACHINE_H
#define KEEL_EXAMPLES_CLI_BASE_MACHINE_H

#include <cstdint>
#include <string>

#include <keel/core/base/json.h>

namespace keel_cli {

// processor, cores, caches in KiB, memory in GiB, system, compiler: the keys `processor`, `cores`,
// `l1d_kib`, `l2_kib`, `l3_kib`, `memory_gib`, `system`, `compiler`; what is not known is missing.
keel::Json describe_machine();
// Now, in UTC: "2026-11-21T09:30:00Z".
std::string utc_now();
// The most memory that this process ever held; 0 where the system does not tell.
int64_t peak_rss_bytes();

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_BASE_MACHINE_H

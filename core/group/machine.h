// Which ranks of a group share a machine, and with it its processors. Any thread, but for what
// takes a Group, which is its thread's.
#ifndef KEEL_CORE_GROUP_MACHINE_H
#define KEEL_CORE_GROUP_MACHINE_H

#include <string>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/group/group.h"

namespace keel {

// Returns what this machine is called until it is started anew, the same in all of its containers;
// empty where the system does not say.
std::string machine_name();

// Returns how many ranks are on the machine of `rank`, itself among them; `machines`: each rank's
// machine_name().
KEEL_API int ranks_beside(const std::vector<std::string>& machines, int rank);

// Returns the same for this rank. All ranks call it.
KEEL_API int ranks_on_this_machine(Group& group);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_MACHINE_H

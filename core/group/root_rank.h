// The part of a broadcast that all kinds of groups, and whoever broadcasts much at once, share: the
// check of its root, and what it is called where ranks differ. Any thread.
#ifndef KEEL_CORE_GROUP_ROOT_RANK_H
#define KEEL_CORE_GROUP_ROOT_RANK_H

#include <cstddef>
#include <string>

#include "keel/core/base/call_site.h"
#include "keel/core/group/group.h"

namespace keel {

// Throws Error (kInvalidArgument), which names `op`, unless `root` is a rank of the group.
void require_root(const Group& group, int root, const std::string& op = "broadcast",
                  CallSite site = {});

// "broadcasts 4 bytes of rank 0".
std::string name_of_broadcast(size_t count, int root);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_ROOT_RANK_H

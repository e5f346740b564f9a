// The check of a broadcast's root that all kinds of groups have in common. Any thread.
#ifndef KEEL_CORE_GROUP_ROOT_RANK_H
#define KEEL_CORE_GROUP_ROOT_RANK_H

#include "keel/core/group/group.h"

namespace keel {

// Throws Error (kInvalidArgument) unless `root` is a rank of the group.
void require_root(const Group& group, int root);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_ROOT_RANK_H

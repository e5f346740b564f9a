// Fingerprint: what all ranks have to have in common before they train together, as named texts. A
// plain value.
#ifndef KEEL_CORE_GROUP_FINGERPRINT_H
#define KEEL_CORE_GROUP_FINGERPRINT_H

#include <map>
#include <string>

#include "keel/core/base/export.h"
#include "keel/core/group/group.h"

namespace keel {

// By name ("graph", "seed") what a rank has: a number or a short text as it is, of more a digest.
using Fingerprint = std::map<std::string, std::string>;

// Compares those of all ranks. Throws RankLost where any differ, with both sides of each that does:
// "GRAPH_DIVERGED(rank 0 a1b2, rank 1 c3d4)", NAME_DIVERGED by its name. All ranks call it.
KEEL_API void require_equal_fingerprints(Group& group, const Fingerprint& own);

}  // namespace keel

#endif  // KEEL_CORE_GROUP_FINGERPRINT_H
